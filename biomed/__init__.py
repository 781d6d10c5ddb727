"""BioBERT: biomedical text -> entities, answers, embeddings."""

import domainbert

__getattr__, __dir__, __all__ = domainbert.imported_on_use(__name__)
__version__ = domainbert.__version__
