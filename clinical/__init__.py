"""ClinicalBERT: long clinical notes -> the risk of readmission within 30 days."""

import domainbert

__getattr__, __dir__, __all__ = domainbert.imported_on_use(__name__)
__version__ = domainbert.__version__
