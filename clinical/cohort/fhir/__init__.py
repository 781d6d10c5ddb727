"""FHIR R4: files, the rows of resources, and the texts of documents."""
