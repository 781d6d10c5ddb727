"""ClinicalBERT: the risk of readmission within 30 days, from all notes of a stay."""

import lazy_loader

import domainbert

# The public names are those of `__init__.pyi`; each is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = domainbert.__version__
