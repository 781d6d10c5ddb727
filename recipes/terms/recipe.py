"""The settings of a recipe of term vectors: how often each source of texts is read."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from biomed.sentences.training import SentenceRecipe
from domainbert.settings import Settings

Times = Annotated[float, Field(ge=0)]


class Relations(Settings):
    """How often an epoch reads each source; 0.5 is a random half of it.

    Attributes:
        synonyms: a term of the vocabulary with its synonyms.
        groups: terms of one group.
        categories: terms of one category.
        names: the names of a MedQuAD concept.
        definitions: a name with a sentence that defines it, in which the name is replaced.
        icd9: titles of one ICD-9 category.
        contexts: a name with a sentence that contains it, in which the name is replaced.
        vocabularies: a synonym with the preferred name of its concept in MeSH, MONDO or HPO, and
            the name of another concept that looks like it.
        families: a concept of MeSH or HPO with its parent or a child of the same parent.
        explained: a name of MONDO or HPO with its definition, in which the name is replaced.
        drugs: another name or a US brand of a drug with its name.
        questions: a question of MedQuAD with its answer.
        paragraphs: a question of SQuAD with its paragraph.
        titles: a title with its abstract.
        sentences: rated pairs of STS-B train.
        related: rated pairs of EHR-RelB.
    """

    synonyms: Times = 1.0
    groups: Times = 1.0
    categories: Times = 1.0
    names: Times = 1.0
    definitions: Times = 1.0
    icd9: Times = 1.0
    contexts: Times = 1.0
    vocabularies: Times = 1.0
    families: Times = 1.0
    explained: Times = 1.0
    drugs: Times = 1.0
    questions: Times = 1.0
    paragraphs: Times = 1.0
    titles: Times = 1.0
    sentences: Times = 1.0
    related: Times = 1.0


class MedicalTermRecipe(SentenceRecipe):
    """A recipe of term vectors from public vocabularies.

    Attributes:
        relations: what is trained on.
    """

    relations: Relations = Relations()
