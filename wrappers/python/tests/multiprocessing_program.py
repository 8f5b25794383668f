"""Scenarios that test_multiprocessing.py runs, each as a program of its own: python
multiprocessing_program.py SCENARIO METHOD.
"""

from __future__ import annotations

import multiprocessing as mp
import signal
import sys

import multiprocessing_arrivals
import multiprocessing_by_name
import multiprocessing_carriers
import multiprocessing_deaths
import multiprocessing_leases
import multiprocessing_strangers

if __name__ == "__main__":
    scenario, method = sys.argv[1:]
    modules = (
        multiprocessing_carriers,
        multiprocessing_arrivals,
        multiprocessing_deaths,
        multiprocessing_leases,
        multiprocessing_strangers,
        multiprocessing_by_name,
    )
    (run,) = (getattr(module, scenario) for module in modules if hasattr(module, scenario))
    signal.alarm(100)
    run(mp.get_context(method))
