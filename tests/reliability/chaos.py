#!/usr/bin/env python3
"""Runs of gpt2_train with signals, failing system calls and a second run in the same folder.

    chaos.py --program gpt2_train --faults libllmc_faults.so [--runs 200] [--first 1]

Each run has a number, from which all follows that is done to it: a run is interrupted or broken a
few times, resumed after each, and at last left in peace until its end. `--first N --runs 1` repeats
run N. Where the program is when a signal comes from outside differs; all else comes at a call that
is counted (see faults.cpp). What must hold:

  1. No checkpoint that was reported is lost: the folder can be resumed, from that step or a later
     one, and the end has the same bits as that of a run that was never disturbed.
  2. Status 0 means that all is there: last checkpoint, its bits, every step's line of the log.
  3. Signals alone, up to two, lose no step that was shown.
  4. Nothing crashes, hangs, or leaves a temporary file behind after the run that comes next.
  5. Of two runs in one folder one is refused, or each has a folder of its own.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

STEPS = 12
SEEDS = (1, 2)
TIME_LIMIT = 60
EVERY = (1, 2, 3, 5, STEPS)  # steps between checkpoints
MODEL = ["--layers", "1", "--heads", "2", "--channels", "8", "--context", "8", "-b", "2",
         "--sample-length", "4", "--val-batches", "2", "--val-every", "5"]
ERRORS = ["ENOSPC", "EDQUOT", "EIO", "EINTR", "EMFILE", "short"]
SIGNALS = ["INT", "TERM", "HUP", "PIPE"]
KEPT = re.compile(r"(model|state)_\d{8}\.bin|product_plans\.txt|.*lock.*")
CRASHES = {getattr(signal, "SIG" + name) for name in ("SEGV", "ABRT", "FPE", "ILL", "BUS")}


class Plan:
    """What is done to one process."""

    def __init__(self, rng, calls, second=False):
        """`calls` is how many of its calls an undisturbed run counts."""
        events = []
        at = rng.randint(1, calls)
        what = rng.choice(["signals", "signals", "errors", "errors", "both", "kill", "outside",
                           "pipe", "full", "nothing"])
        if what in ("signals", "both"):
            for _ in range(rng.choice([1, 1, 2, 3])):
                events.append((at, rng.choice(SIGNALS), 1))
                at += rng.randrange(1, 20)
        if what in ("errors", "both"):
            for _ in range(rng.choice([1, 1, 2, 3])):
                events.append((rng.randint(1, calls), rng.choice(ERRORS),
                               rng.choice([1, 1, 2, 5, 1000])))
        if what == "kill":
            events.append((at, "KILL", 1))
        if second:
            events += [(rng.randint(1, calls), "pause", rng.choice([1, 5])) for _ in range(3)]
        self.events = sorted(events)
        self.outside = []
        if what == "outside":
            self.outside = [(rng.uniform(0, 0.03), rng.choice(SIGNALS))
                            for _ in range(rng.choice([1, 1, 2, 3]))]
        self.to_full = what == "full"  # standard output is /dev/full
        self.close_after = rng.randrange(18, 60) if what == "pipe" else None  # lines of output
        signals = [name for _, name, _ in events if name in SIGNALS] + self.outside
        self.has_errors = any(name in ERRORS for _, name, _ in events)
        self.is_killed = what == "kill"
        self.is_nothing = what == "nothing"
        self.loses_nothing = not self.has_errors and not self.is_killed and len(signals) <= 2

    def text(self):
        return ",".join("%d:%s:%d" % event for event in self.events)

    def __str__(self):
        more = ["%s after %.3f s" % (name, seconds) for seconds, name in self.outside]
        if self.close_after is not None:
            more.append("pipe closed after %d lines" % self.close_after)
        if self.to_full:
            more.append("output to /dev/full")
        return ", ".join(filter(None, [self.text()] + more)) or "nothing"


class Process:
    """One gpt2_train, and what it said."""

    def __init__(self, work, folder, arguments, plan, name):
        self.plan, self.folder, self.arguments = plan, folder, arguments
        self.lines = []
        self.note = folder.parent / (folder.name + "." + name)
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        if plan is not None:
            environment.update(LD_PRELOAD=work.faults, LLMC_FAULTS_BELOW=str(folder),
                               LLMC_FAULTS=plan.text(), LLMC_FAULTS_LOG=str(self.note) + ".faults")
        self.errors = open(str(self.note) + ".errors", "w+")
        with open("/dev/full", "wb") as full:
            self.process = subprocess.Popen(
                [work.program, "--backend", "cpu"] + arguments, cwd=folder, env=environment,
                stdin=subprocess.DEVNULL, stderr=self.errors,
                stdout=full if plan and plan.to_full else subprocess.PIPE)
        self.timer = threading.Timer(TIME_LIMIT, self.stop)
        self.hung = False
        self.timer.start()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def stop(self):
        self.hung = True
        self.process.kill()

    def read(self):
        """Reads the output, and sends what comes from outside once the steps have begun."""
        to_send = list(self.plan.outside) if self.plan else []
        if self.process.stdout is None:
            return
        for raw in self.process.stdout:
            self.lines.append(raw.decode(errors="replace").rstrip("\n"))
            while to_send and self.shown():
                seconds, name = to_send.pop(0)
                time.sleep(seconds)
                self.process.send_signal(getattr(signal, "SIG" + name))
            if self.plan and len(self.lines) == self.plan.close_after:
                break
        self.process.stdout.close()

    def wait(self):
        code = self.process.wait()
        self.reader.join()
        self.timer.cancel()
        self.status = code if code >= 0 else 128 - code
        self.signal = -code if code < 0 else 0
        self.newest = self.saved()
        self.errors.seek(0)
        self.said = self.errors.read().strip()
        self.errors.close()
        return self

    def match(self, pattern):
        return [found for found in map(re.compile(pattern).match, self.lines) if found]

    def shown(self):
        """The last step whose line was seen, or 0."""
        return max([int(m[1]) for m in self.match(r" *(\d+) +\d+\.\d{4} +\d+\.\d{3} ")], default=0)

    def reported(self):
        """Paths of models that were reported, by step."""
        return {int(m[1]): pathlib.Path(m[2]) for m in self.match(r" *(\d+) wrote (.*)")}

    def saved(self):
        """The last step of which there are both files; of the last ones the report may be cut."""
        folder = max([pathlib.Path(self.folder, m[1]) for m in self.match("checkpoints +(.*)")],
                     default=self.folder)
        return max([int(state.stem[6:]) for state in folder.glob("state_*.bin")
                    if (folder / state.name.replace("state", "model")).exists()], default=0)

    def resumed(self):
        return max([int(m[1]) for m in self.match(r"resumed +after step (\d+)")], default=0)

    def __str__(self):
        return "  status %d, steps to %d, reported %s, resumed after %d: %s\n    done to it: %s\n    %s" % (
            self.status, self.shown(), sorted(self.reported()), self.resumed(),
            " ".join(self.arguments), self.plan or "nothing", self.said.replace("\n", "\n    "))


class Run:
    """One run from its beginning to its end."""

    def __init__(self, work, number):
        self.work, self.number = work, number
        self.rng = random.Random(number)
        self.folder = work.folder / ("run-%d" % number)
        self.folder.mkdir()
        shutil.copy(work.text, self.folder / "text.txt")
        self.processes = []
        self.faults = []
        self.reported = collections.defaultdict(dict)  # folder: step: seed

    def start(self, arguments, plan):
        process = Process(self.work, self.folder, arguments, plan, str(len(self.processes)))
        self.processes.append(process)
        return process

    def fault(self, text):
        self.faults.append(text)

    def new(self, seed, out):
        arguments = MODEL + ["--data", "text.txt", "--steps", str(STEPS), "--seed", str(seed),
                             "--checkpoint-every", str(self.every)]
        if out:
            arguments += ["--out", out]
        if self.log:
            arguments += ["--log", "log-%d.jsonl" % seed]
        return arguments

    def look_at(self, process, seed):
        """What must hold for a process to which its plan was done."""
        if process.hung:
            return self.fault("did not end in %d s" % TIME_LIMIT)
        plan = process.plan
        if process.signal in CRASHES or (process.signal == signal.SIGKILL and not plan.is_killed):
            self.fault("ended by signal %d" % process.signal)
        if plan.is_nothing and process.status not in (0, 2):  # 2: another has the folder
            self.fault("undisturbed, status %d" % process.status)
        for step, path in process.reported().items():
            seeds = self.reported[path.parent]
            if seeds.get(step, seed) != seed:
                self.fault("two runs reported step %d in %s" % (step, path.parent))
            seeds[step] = seed
        newest = max(process.reported(), default=0)
        if plan.loses_nothing and process.shown() > process.newest:
            self.fault("steps to %d were shown, the newest checkpoint has %d" %
                       (process.shown(), process.newest))
        if process.status == 0:
            is_cut = plan.close_after is not None
            if (process.newest if is_cut else newest) != STEPS:
                self.fault("status 0, the newest checkpoint reported has step %d" % newest)
            elif not is_cut:
                self.compare(process.reported()[STEPS], {seed})
            self.look_at_log(process, seed)

    def look_at_log(self, process, seed):
        if not self.log:
            return
        path = self.folder / ("log-%d.jsonl" % seed)
        steps = set()
        for line in path.read_text(errors="replace").splitlines() if path.exists() else []:
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # a line that a disturbed process left
            if "loss" in entry:
                steps.add(entry["step"])
        missing = set(range(process.resumed() + 1, STEPS + 1)) - steps
        if missing:
            self.fault("status 0, the log lacks steps %s" % sorted(missing))

    def compare(self, model, seeds):
        """The model at the end must be that of an undisturbed run of one of these seeds."""
        if not model.exists():
            return self.fault("%s is missing" % model)
        bits = model.read_bytes()
        if not any(bits == self.work.ends[seed] for seed in seeds):
            self.fault("%s differs from an undisturbed run's" % model)

    def finish(self, folder, seed):
        """A process that nothing is done to: it goes on from the newest checkpoint to the end."""
        newest = max(self.reported[folder], default=0)
        seeds = set(self.reported[folder].values()) or {seed}
        arguments = ["--resume", str(folder)]
        if not any(folder.glob("state_*.bin")):
            if newest:
                return self.fault("step %d was reported, but no state is left" % newest)
            if any(folder.glob("model_*.bin")):  # killed before the first state had its name
                folder = self.folder / "again"
            arguments = self.new(seed, str(folder))
            seeds = {seed}
        last = self.start(arguments, None).wait()
        done = last.status == 2 and "--steps must be more than" in last.said
        if last.hung:
            self.fault("the last process did not end")
        elif not done and last.status != 0:
            self.fault("step %d was reported, but going on fails" % newest)
        elif last.status == 0 and last.resumed() < newest:
            self.fault("step %d was reported, but it goes on from %d" % (newest, last.resumed()))
        else:
            self.compare(folder / ("model_%08d.bin" % STEPS), seeds if newest else set(SEEDS))
            if last.status == 0:
                if newest:
                    self.look_at_log(last, min(seeds))
                left = [p.name for p in folder.iterdir() if not KEPT.fullmatch(p.name)]
                if left:
                    self.fault("left behind: %s" % ", ".join(sorted(left)))

    def execute(self):
        rng = self.rng
        self.every = rng.choice(EVERY)
        self.log = rng.random() < 0.5
        kind = rng.choice(["alone", "alone", "alone", "same folder", "default folders"])
        seeds = SEEDS[:1] if kind == "alone" else SEEDS
        out = None if kind == "default folders" else "out"
        calls = self.work.calls[self.every]
        pair = [(self.start(self.new(seed, out), Plan(rng, calls, kind != "alone")), seed)
                for seed in seeds]
        for process, _ in pair:
            process.wait()
        for process, seed in pair:
            self.look_at(process, seed)
        folders = {self.folder / "out"} if out else set(self.folder.glob("llmc-run*"))
        if kind == "alone":
            for together in rng.choice([[], [1], [1], [2], [1, 1]]):
                if not any((self.folder / "out").glob("state_*.bin")):
                    break
                started = [self.start(["--resume", "out"], Plan(rng, calls, together > 1))
                           for _ in range(together)]
                for process in started:
                    self.look_at(process.wait(), seeds[0])
        for folder in sorted(folders):
            self.finish(folder, seeds[0])
        return self

    def __str__(self):
        return "run %d\n%s\n%s" % (self.number, "\n".join(map(str, self.processes)),
                                   "".join("  FAULT: %s\n" % text for text in self.faults))


class Work:
    """What all runs share: the program, a text, and how undisturbed runs end."""

    def __init__(self, options, folder):
        self.program = os.path.abspath(options.program)
        self.faults = os.path.abspath(options.faults)
        self.folder = folder
        self.text = folder / "text.txt"
        words = random.Random(0)
        self.text.write_text(" ".join(words.choice(["cat", "dog", "sees", "a", "the", "runs.\n"])
                                      for _ in range(1200)))
        self.ends = {seed: self.undisturbed(seed, STEPS)[0] for seed in SEEDS}
        self.calls = {every: self.undisturbed(1, every)[1] for every in EVERY}

    def undisturbed(self, seed, every):
        """The last model's bytes, and how many calls were counted."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            count = folder + "/count"
            subprocess.run(
                [self.program, "--backend", "cpu", *MODEL, "--data", str(self.text),
                 "--steps", str(STEPS), "--seed", str(seed), "--checkpoint-every", str(every),
                 "--out", folder + "/out"], check=True, stdout=subprocess.DEVNULL,
                env=dict(os.environ, OMP_NUM_THREADS="1", LD_PRELOAD=self.faults,
                         LLMC_FAULTS_BELOW=str(self.folder), LLMC_FAULTS_LOG=count),
                timeout=TIME_LIMIT)
            model = pathlib.Path(folder, "out", "model_%08d.bin" % STEPS)
            return model.read_bytes(), int(open(count).read().split()[1])


def counts(counter):
    return ", ".join("%s %d" % item for item in sorted(counter.items(), key=str))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--faults", required=True)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", help="a new folder for all files, which stay there")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()

    begin = time.monotonic()
    folder = pathlib.Path(options.keep or tempfile.mkdtemp(prefix="llmc-chaos-"))
    folder.mkdir(exist_ok=options.keep is None)
    happened = collections.Counter()
    statuses = collections.Counter()
    bad, reported = [], 0
    try:
        work = Work(options, folder)
        numbers = range(options.first, options.first + options.runs)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for run in pool.map(lambda number: Run(work, number).execute(), numbers):
                if run.faults:
                    bad.append(run.number)
                if run.faults or options.verbose:
                    print(run, flush=True)
                for process in run.processes:
                    plan = process.plan
                    statuses[process.status] += 1
                    reported += len(process.reported())
                    note = pathlib.Path(str(process.note) + ".faults")
                    for line in note.read_text().splitlines() if note.exists() else []:
                        if not line.startswith("calls "):
                            happened[line.split()[2]] += 1
                    if plan is None:
                        continue
                    happened.update(name + " from outside" for _, name in plan.outside)
                    happened["closed pipe"] += plan.close_after is not None
                    happened["full output"] += plan.to_full
    finally:
        if options.keep is None:
            shutil.rmtree(folder)
    print("%d runs from number %d, %d processes, %d checkpoints reported, %.0f s" % (
        options.runs, options.first, sum(statuses.values()), reported, time.monotonic() - begin))
    print("exit statuses: " + counts(statuses))
    print("done to them: " + counts(happened))
    print("runs with faults: " + (", ".join(map(str, bad)) or "none"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
