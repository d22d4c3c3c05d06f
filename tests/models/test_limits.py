from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.models.budget import Budget
from bench.models.limits import Rates, Slots
from bench.types import OverBudget
from making import user
from serving import answer, model_for, serve


def test_no_more_calls_are_in_flight_than_allowed():
    now, most, counting = 0, 0, threading.Lock()

    def counted(request):
        nonlocal now, most
        with counting:
            now += 1
            most = max(most, now)
        time.sleep(0.1)
        with counting:
            now -= 1
        return answer("ok")(request)

    with serve(counted) as server, ThreadPoolExecutor(6) as pool:
        models = [model_for(server, concurrency=2) for _ in range(6)]  # as six processes would have
        list(pool.map(lambda model: model.generate([user("Hi")], purpose="test"), models))
    assert most == 2
    assert len(server.requests) == 6


def test_a_process_that_dies_lets_go_of_its_slot(tmp_path):
    code = "import sys; from pathlib import Path; from bench.models.limits import Slots\n"
    code += "with Slots(Path(sys.argv[1]), 'here', 1).one(): print('held', flush=True); input()"
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    with Slots(tmp_path, "elsewhere", 1).one():
        pass
    began = time.monotonic()
    threading.Timer(0.3, holder.kill).start()
    with Slots(tmp_path, "here", 1).one():
        assert time.monotonic() - began >= 0.3
    holder.communicate()


def waited(rates: Rates, tokens: int) -> float:
    began = time.monotonic()
    rates.wait(tokens)
    return time.monotonic() - began


def test_requests_over_the_limit_wait_for_the_oldest_to_leave(tmp_path):
    first, second = (Rates(tmp_path, "x", requests=2, minute=0.6) for _ in range(2))
    assert waited(first, 1) + waited(second, 1) < 0.4
    assert waited(first, 1) > 0.1
    assert waited(Rates(tmp_path, "y", requests=2, minute=0.6), 1) < 0.3  # another model


def test_tokens_over_the_limit_wait_and_a_request_larger_than_it_goes_alone(tmp_path):
    rates = Rates(tmp_path, "x", tokens=100, minute=0.6)
    assert waited(rates, 60) + waited(rates, 40) < 0.4
    assert waited(rates, 500) > 0.1
    assert waited(rates, 1) > 0.3


def test_without_limits_nothing_is_written(tmp_path):
    Rates(tmp_path, "x").wait(10**9)
    assert not list(tmp_path.iterdir())


def test_what_is_reserved_counts_until_the_price_is_known(tmp_path):
    budget = Budget(tmp_path, 1.0)
    call = budget.reserve(0.9)
    with pytest.raises(OverBudget):
        Budget(tmp_path, 1.0).reserve(0.2)
    budget.settle(call, 0.1)
    Budget(tmp_path, 1.0).reserve(0.9)


def test_many_processes_never_reserve_more_than_there_is(tmp_path):
    def reserve(_):
        try:
            return Budget(tmp_path, 1.0).reserve(0.125) > 0
        except OverBudget:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(reserve, range(20))) == 8
