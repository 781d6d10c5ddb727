"""The commands of `biomed sentences` that train: train, augment, distill, mine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from biomed.sentences.commands import DEFAULT, PAIRS_HELP, app, load_encoder
from domainbert import options
from domainbert.console import one_line_errors, say
from domainbert.encoders import DEFAULT_ENCODER
from domainbert.errors import UserError


@app.command()
@one_line_errors
def train(
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS", help=PAIRS_HELP)],
    out: options.ModelFolder,
    validation: Annotated[
        Path | None, typer.Option(help="Pairs that choose the weights, in the same formats.")
    ] = None,
    recipe: options.RecipeFile = None,
    kind: Annotated[str | None, typer.Option(help="bi-encoder or cross-encoder.")] = None,
    objective: Annotated[
        str | None,
        typer.Option(help="contrastive, regression, classification or triplet."),
    ] = None,
    pooling: Annotated[str | None, typer.Option(help="mean, cls or max.")] = None,
    scale: Annotated[float | None, typer.Option(help="The largest score, such as 5.")] = None,
    encoder: options.EncoderName = None,
    epochs: options.Epochs = None,
    learning_rate: options.LearningRate = None,
    seed: options.Seed = None,
    checkpoints: options.Checkpoints = None,
    resume: options.Resume = False,
    merged: options.Merged = False,
) -> None:
    """Train a bi-encoder or a cross-encoder on pairs or triplets, and write the model folder.

    Without --validation, PAIRS is the folder of the public data sets, and a model of medical
    texts is trained, such as the shipped one: --recipe sentences.
    """
    from biomed.sentences.data import read_examples
    from biomed.sentences.medical import MedicalRecipe, train_medical
    from biomed.sentences.training import SentenceRecipe, train_from_recipe
    from domainbert.training.recipes import read_recipe
    from domainbert.training.session import training_run

    changes = {
        "model.kind": kind,
        "model.objective": objective,
        "model.pooling": pooling,
        "model.encoder": encoder,
        "data.scale": scale,
        "training.epochs": epochs,
        "training.learning_rate": learning_rate,
        "training.seed": seed,
    }
    if not (validation or pairs.is_dir()):
        msg = f"{pairs} is not the folder of the public data sets; with pairs, name --validation"
        raise UserError(msg)
    unread = {"kind": kind not in (None, "bi-encoder"), "scale": scale is not None}
    unread["objective"] = objective not in (None, "contrastive")
    if not validation and (given := [name for name in unread if unread[name]]):
        msg = f"--{given[0]} is for training on pairs; leave it out, or name --validation"
        raise UserError(msg)
    with training_run(out, checkpoints, resume=resume) as run:
        place: dict[str, Any] = {"checkpoints": run.checkpoints, "resume": resume}
        if validation:
            plan = read_recipe(SentenceRecipe, recipe, changes)
            sides = read_examples(pairs), read_examples(validation)
            trained = train_from_recipe(plan, *sides, **place)
        else:
            trained = train_medical(read_recipe(MedicalRecipe, recipe, changes), pairs, **place)
        run.save(trained, merged=merged)
    best = ", ".join(f"{k} {v:.4f}" for k, v in trained.manifest["validation"].items())
    say(f"validation: {best}; model in {out}")


@app.command()
@one_line_errors
def augment(
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS", help=f"Rated pairs. {PAIRS_HELP}")],
    validation: Annotated[Path, typer.Option(help="Rated pairs that choose the weights.")],
    out: options.ModelFolder,
    recipe: options.RecipeFile = None,
    texts: Annotated[
        Path | None, typer.Option(help="A table of texts to pair; by default those of PAIRS.")
    ] = None,
    text: options.TextColumn = None,
    silver_only: Annotated[
        bool, typer.Option("--silver-only", help="PAIRS are of another domain than --texts.")
    ] = False,
    silver: Annotated[Path | None, typer.Option(help="Write the silver pairs here.")] = None,
    scale: Annotated[float | None, typer.Option(help="The largest score, such as 5.")] = None,
    encoder: options.EncoderName = None,
    cross: Annotated[Path | None, typer.Option(help="Write the cross-encoder here.")] = None,
    seed: options.Seed = None,
    checkpoints: options.Checkpoints = None,
    resume: options.Resume = False,
    merged: options.Merged = False,
) -> None:
    """Train a bi-encoder on few rated pairs and on pairs that a cross-encoder rates."""
    from biomed.sentences import augment as augmented
    from biomed.sentences.data import read_examples
    from biomed.sentences.tables import read_texts
    from domainbert.storage import check_replaceable
    from domainbert.tables import write_table
    from domainbert.training.recipes import read_recipe
    from domainbert.training.session import training_run

    changes = {"data.scale": scale, "model.encoder": encoder}
    changes |= {"training.seed": seed, "cross.seed": seed}
    if cross:
        check_replaceable(cross)
    plan = read_recipe(augmented.AugmentRecipe, recipe or "augmented", changes)
    with training_run(out, checkpoints, resume=resume) as run:
        own = [value for value in read_texts(texts, text=text)[0] if value] if texts else None
        sides = read_examples(pairs), read_examples(validation)
        place: dict[str, Any] = {"checkpoints": run.checkpoints, "resume": resume}
        found = augmented.augment(plan, *sides, texts=own, silver_only=silver_only, **place)
        run.save(found.encoder, merged=merged)
        if cross:
            found.cross.save_pretrained(cross)
    if silver:
        write_table(found.silver.to_frame(), silver)
    best = ", ".join(f"{k} {v:.4f}" for k, v in found.encoder.manifest["validation"].items())
    say(f"validation: {best}; {len(found.silver):,} silver pairs; model in {out}")


@app.command()
@one_line_errors
def distill(
    out: options.ModelFolder,
    sentences: Annotated[
        Path | None, typer.Argument(help=f"A .txt of lines, or pairs. {PAIRS_HELP}")
    ] = None,
    language: Annotated[
        Path | None, typer.Option(help="The translation of each sentence, in the same order.")
    ] = None,
    layers: Annotated[int | None, typer.Option(help="Layers that the student keeps.")] = None,
    static: Annotated[
        bool, typer.Option("--static", help="Train one vector per word piece; needs no SENTENCES.")
    ] = False,
    student: Annotated[
        str | None, typer.Option(help="Encoder to start from; by default the teacher.")
    ] = None,
    recipe: Annotated[str | None, typer.Option(help="A shipped name or a TOML file.")] = None,
    teacher: options.EncoderName = None,
    epochs: options.Epochs = None,
    learning_rate: options.LearningRate = None,
    seed: options.Seed = None,
) -> None:
    """Train a student for another language, or a smaller one, to give a teacher's vectors."""
    from biomed.sentences import distill as distilled
    from biomed.sentences.bitext import read_sentences, read_translations
    from domainbert.training.recipes import read_recipe
    from domainbert.training.session import training_run

    changes = {
        "model.layers": layers,
        "model.encoder": teacher,
        "training.epochs": epochs,
        "training.learning_rate": learning_rate,
        "training.seed": seed,
    }
    if static:
        distilled.check_absent(out)
        distilled.save_static(distilled.distill_static(teacher or DEFAULT_ENCODER), out)
        say(f"a sentence-transformers model in {out}")
        return
    if sentences is None:
        raise UserError("name SENTENCES to learn from, or use --static")
    shipped = "distill-language" if language else "distill-small"
    plan = read_recipe(distilled.DistillRecipe, recipe or shipped, changes)
    with training_run(out) as run:
        if language:
            own, translated = read_translations(sentences, language)
        else:
            own, translated = list(dict.fromkeys(filter(None, read_sentences(sentences)))), None
        start = load_encoder(student) if student else None
        trained = distilled.distill(plan, own, translations=translated, student=start)
        run.save(trained)
    best = ", ".join(f"{k} {v:.4f}" for k, v in trained.manifest["validation"].items())
    say(f"validation: {best}; model in {out}")


@app.command()
@one_line_errors
def mine(
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS", help=PAIRS_HELP)],
    out: options.Table,
    model: options.EncoderModel = DEFAULT,
    count: Annotated[int, typer.Option(help="Maximum number of negatives per pair.")] = 1,
    among: Annotated[int, typer.Option(help="Number of nearest texts to choose from.")] = 50,
    margin: Annotated[
        float, typer.Option(help="Minimum distance of a negative's cosine from the pair's.")
    ] = 0.05,
) -> None:
    """Write triplets: each pair with the nearest texts that are not right for its query."""
    import pandas as pd

    from biomed.sentences.data import read_examples
    from biomed.sentences.negatives import mine_negatives
    from domainbert.tables import write_table

    given = read_examples(pairs)
    found = mine_negatives(given, load_encoder(model), count=count, among=among, margin=margin)
    columns = {"anchor": found.first, "positive": found.second, "negative": found.third}
    write_table(pd.DataFrame(columns), out)
    say(f"{len(found):,} triplets of {len(given):,} pairs in {out}")
