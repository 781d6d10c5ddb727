"""The risk at the bedside: CDS Hooks cards, FHIR RiskAssessment, and a page to try the models."""
