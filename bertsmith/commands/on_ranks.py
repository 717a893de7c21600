"""A command on several ranks: rank 0 runs it, and the others compute for rank 0."""

import contextlib
import signal
import sys
from collections.abc import Callable

from bertsmith.errors import BertsmithError, Interrupted, TrainingError, as_flags
from bertsmith.system.launch import Launch
from bertsmith.system.stop_signal import SIGNALS, exit_code
from bertsmith.training.workers.distributed import serve_rank
from bertsmith.training.workers.rank_group import join_ranks


def run_on_ranks(launch: Launch, work: Callable[[], None]) -> None:
    """Run `work` on rank 0, while the other ranks compute for it; end all with its exit code.

    A rank that loses its connection to rank 0 ends with exit code 1.
    """
    ranks = join_ranks(launch)
    if ranks.rank > 0:
        for number in SIGNALS:  # rank 0 handles them, and needs the others to save the run
            signal.signal(number, signal.SIG_IGN)
        try:
            code = serve_rank(ranks)
        except TrainingError as error:
            print(f"bertsmith: rank {ranks.rank}: {as_flags(error.message)}", file=sys.__stderr__)
            code = 1
        ranks.close()
        raise SystemExit(code)
    code = 1
    try:
        work()
        code = 0
    except (Interrupted, KeyboardInterrupt):
        code = exit_code()
        raise
    except BrokenPipeError:  # the program that read the output has ended, which is not an error
        code = 0
        raise
    except BertsmithError:
        code = 2
        raise
    finally:
        with contextlib.suppress(TrainingError):  # the others may have ended
            ranks.tell(("end", code))
            ranks.close()
