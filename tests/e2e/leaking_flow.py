"""A flow that does everything wrong, so that a test can show that its search would find it.

``python -m tests.e2e.leaking_flow``; the first line of stdin is JSON: ``{"text", "number"}``.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Parameters, log, artifact, result, names, states."""
    from prefect import flow, get_run_logger, task
    from prefect.artifacts import create_markdown_artifact

    @task(persist_result=True, log_prints=True)
    def counted(number: int) -> int:
        print(f"counted {number}")
        return number

    @task(task_run_name="of-{text}")
    def failing(text: str) -> None:
        raise ValueError(f"cannot cast {text}")

    @flow(persist_result=True)
    def leaky(text: str, number: int) -> None:
        get_run_logger().info("reading the row of %s", text)
        create_markdown_artifact(key="leak", markdown=f"{float(number)!r} in all")
        counted(number)
        failing(text)

    leaky(**json.loads(sys.stdin.readline()))


if __name__ == "__main__":
    main()
