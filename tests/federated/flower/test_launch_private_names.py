"""Flower's private names that the launcher needs: a test fails with one clear line when Flower moves one.

Flower's documented interface is not enough to close what it leaves open. What is used beside it is listed in
``launch.PRIVATE_NAMES``, each with its reason; these tests hold the list against the installed Flower.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

import flwr

import onefold.federated.flower as room
from onefold.federated.flower import folders, launch

VERSION = flwr.__version__


@pytest.mark.merge
@pytest.mark.parametrize("name", launch.PRIVATE_NAMES)
def test_flower_has_the_private_name(name: str) -> None:
    try:
        launch.find_private(name)
    except SystemExit as ending:
        pytest.fail(
            f"Flower {VERSION} has no {name}, needed because: {launch.PRIVATE_NAMES[name]} ({ending})"
        )


@pytest.mark.merge
def test_missing_private_name_ends_the_program_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("flwr.superlink.main.no_such_name", "flwr.no_such_module.x", "flwr.app.NoSuchClass.launch"):
        monkeypatch.setitem(launch.PRIVATE_NAMES, name, "it is needed")
        with pytest.raises(SystemExit, match=rf"it has no {re.escape(name)} \(it is needed\)"):
            launch.find_private(name)


def test_only_the_launcher_uses_private_names() -> None:
    """Everything else imports Flower's documented packages: app, serverapp, clientapp."""
    documented = {"flwr", "flwr.app", "flwr.serverapp", "flwr.clientapp"}
    found = set()
    for path in Path(room.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("flwr"):
                found.add((path.name, node.module))
            elif isinstance(node, ast.Import):
                found |= {(path.name, each.name) for each in node.names if each.name.startswith("flwr")}
    assert {(file, name) for file, name in found if name not in documented} == set()


def test_every_listed_name_is_used() -> None:
    text = Path(launch.__file__).read_text(encoding="utf-8")
    calls = text[text.index("def superlink") :]
    for name in launch.PRIVATE_NAMES:
        assert name.rpartition(".")[2] in calls, f"{name} is listed and not used"


def test_error_code_of_a_node_that_went_away() -> None:
    from flwr.common.constant import ErrorCode

    assert ErrorCode.NODE_UNAVAILABLE == launch.NODE_UNAVAILABLE, "it is another code now"


def test_supernode_prints_a_line_when_it_is_connected() -> None:
    source = inspect.getsource(_module("flwr.supernode.start_client_internal"))
    assert f'"{launch.CONNECTED} ' in source, "Flower words this line differently now"


def test_create_app_returns_an_application_that_takes_middleware() -> None:
    for name in ("flwr.superlink.main.create_app", "flwr.supernode.main.create_app"):
        made = inspect.signature(launch.find_private(name)).return_annotation
        assert "FastAPI" in str(made), f"{name} makes another kind of application: the gate may not fit it"


def test_launch_takes_a_specification_with_the_fields_that_are_read() -> None:
    types = _module("flwr.supercore.superexec.executor.types")
    fields = set(inspect.signature(types.ExecutionSpec).parameters)
    needed = {"task_type", "insecure", "runtime_api_address", "token", "parent_pid"}
    assert needed <= fields, f"forked answers read {needed - fields}, which Flower does not give any more"
    assert list(inspect.signature(_executor().launch).parameters) == ["self", "spec"]


def test_client_app_takes_the_arguments_of_a_forked_answer() -> None:
    sources = Path(flwr.__file__).parent
    for option in ("--runtime-api-address", "--token", "--parent-pid", "--insecure"):
        found = any(f'"{option}"' in path.read_text(encoding="utf-8") for path in sources.rglob("*.py"))
        assert found, f"flwr-clientapp has no option {option} any more"


def test_loop_of_a_site_uses_only_sleep_of_the_module_time() -> None:
    loop = _module("flwr.supernode.start_client_internal")
    used = set(re.findall(r"\btime\.(\w+)", inspect.getsource(loop)))  # "time." ends a sentence there
    assert used == {"sleep"}, f"launch._Impatient must stand in for time.{used} too"


def test_site_forgets_finished_tasks_and_no_others() -> None:
    """Flower keeps a task for each message a SuperNode ever had, and looks through all to find one."""
    kind = _module("flwr.supernode.nodestate.in_memory_nodestate").InMemoryNodeState
    made = _module("flwr.supernode.nodestate").NodeStateFactory
    assert kind.__name__ in inspect.getsource(_module(made.__module__)), "a SuperNode has another state now"

    class Forgetting(kind):  # type: ignore[misc, valid-type]
        finish_task = launch._forgetting(kind.finish_task)

    state = Forgetting(_module("flwr.supercore.object_store").ObjectStoreFactory().store())
    constants = _module("flwr.supercore.constant")

    def create() -> int:
        return int(state.create_task(task_type=constants.TaskType.CLIENT_APP, run_id=1, fab_hash="a" * 64))

    open_ = [create(), create()]
    finished = [create() for _ in range(3 * launch.FINISHED_TASKS)]
    failed = _module("flwr.common.constant").SubStatus.FAILED
    assert all(state.finish_task(task, sub_status=failed, details="") for task in finished)
    assert not state.finish_task(finished[-1], failed, "")  # it is known to be finished
    assert set(state.task_store) == {*open_, *finished[-launch.FINISHED_TASKS :]}


def test_folders_and_launcher_agree_on_the_variable() -> None:
    assert folders.SITE_VARIABLE == launch.SITE_VARIABLE


def _module(name: str) -> Any:
    return importlib.import_module(name)


def _executor() -> Any:
    return _module("flwr.supercore.superexec.executor.subprocess_executor").SubprocessExecutor
