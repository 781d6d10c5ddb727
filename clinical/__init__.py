"""ClinicalBERT: the risk of readmission within 30 days, from all notes of a stay."""

import domainbert

__getattr__, __dir__, __all__ = domainbert.imported_on_use(__name__)
__version__ = domainbert.__version__
