"""`bertsmith finetune translate`: pairs of texts → a model that writes one from the other."""

from collections.abc import Mapping, Sequence
from typing import Any

from bertsmith.commands.next_command import with_import_flags
from bertsmith.commands.output import print_json, print_note
from bertsmith.commands.resume import print_resume_state, resume_command
from bertsmith.commands.settings.finetune_translate import Settings
from bertsmith.data.tables import check_delimiter
from bertsmith.lineage.translation_run import finetune_translation
from bertsmith.system.counts import count_noun, percent
from bertsmith.system.paths import shell_path
from bertsmith.training.display import Display


def main(settings: Settings, line: Sequence[str]) -> None:
    """Fine-tune a model and print its scores; `line` is for the advice on how to resume."""
    check_delimiter(settings.columns, settings.train, settings.eval)
    if settings.resume:
        print_resume_state(
            settings.out, overwrite=settings.overwrite, final_key="result", kind="fine-tuning"
        )
    with Display() as display:
        result = finetune_translation(
            settings,
            settings.out,
            resume=settings.resume,
            overwrite=settings.overwrite,
            callbacks=[display],
            resume_command=resume_command(line),
        )
    for name, flag in (("num_skipped", "--train"), ("num_eval_skipped", "--eval")):
        if result[name]:
            rows = count_noun(result[name], "row was", "rows were")
            print_note(f"{flag}: {rows} left out: a text was missing or longer than --max-length")
    if settings.json:
        print_json(result)
        return
    print("\n".join(describe(result)))
    command = f'bertsmith translate {shell_path(settings.out)} "a text"'
    print(f"try        {with_import_flags(command)}")


def describe(result: Mapping[str, Any]) -> list[str]:
    """Describe a run in lines, its length and its scores; `result` is the summary of the run."""
    scores = result["evaluation"]
    return [
        f"trained    {count_noun(result['steps'], 'step')} on "
        f"{count_noun(result['num_train'], 'pair')}, {result['real_tokens']:,} tokens in "
        f"{result['elapsed_seconds'] / 60:.1f} minutes ({result['tokens_per_second']:,.0f} "
        f"tokens/s)",
        f"eval       loss {scores['loss']:.3f}, next token right "
        f"{percent(scores['token_accuracy'])}, whole target right "
        f"{percent(scores['exact_match'])} of "
        f"{count_noun(scores['num_examples'], 'pair')}",
        f"model      {result['out']}  (with curves.svg and journal.jsonl)",
    ]
