"""Ratios of times that were taken in turn, with their uncertainty."""

import math
import random
import statistics

DRAWS = 4000


def interval(values, draws=DRAWS):
    """The median and its 95 % interval, by bootstrap."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(draws))
    return statistics.median(values), medians[int(draws * 0.025)], medians[int(draws * 0.975)]


def sums(values, base, draws=DRAWS):
    """The ratio of sums and its 95 % interval, by bootstrap over rounds: for what happens in few of them."""
    chance = random.Random(1)
    rounds = list(zip(values, base))

    def ratio(drawn):
        return sum(value for value, _ in drawn) / sum(base for _, base in drawn)

    drawn = sorted(ratio(chance.choices(rounds, k=len(rounds))) for _ in range(draws))
    return ratio(rounds), drawn[int(draws * 0.025)], drawn[int(draws * 0.975)]


def longer(times, touched, at, reach=12):
    """By how much a time is longer than the median of the untouched ones around it."""
    near = range(max(at - reach, 0), min(at + reach + 1, len(times)))
    around = [times[other] for other in near if other != at and not touched[other]]
    # Where none is near, those of the whole.
    return times[at] - statistics.median(around or [time for time, is_touched in zip(times, touched) if not is_touched])


def slices(times, touched, parts=6, draws=200):
    """What slices add to all times, by parts of the whole, and what as many of the other times would add by chance; nothing where there are none without."""

    def share(chosen, of):
        added = sum(longer(times, touched, at) for at in chosen)
        return added / (sum(times[at] for at in of) - added)

    every = range(len(times))
    chosen = [at for at in every if touched[at]]
    others = [at for at in every if not touched[at]]
    if not others:
        return None
    size = math.ceil(len(times) / parts)
    pieces = [every[begin : begin + size] for begin in range(0, len(times), size)]
    chance = random.Random(1)
    by_chance = [share(chance.sample(others, len(chosen)), every) for _ in range(draws)] if len(chosen) < len(others) else []
    return dict(
        times=len(times),
        touched=len(chosen),
        added=share(chosen, every),
        parts=[share([at for at in part if touched[at]], part) for part in pieces],
        by_chance=[statistics.fmean(by_chance), statistics.pstdev(by_chance)] if by_chance else None,
        median_ms=statistics.median(times) / 1e6,
    )


def slices_line(found):
    if not found:
        return "no steps without slices"
    parts = " ".join(f"{part:.4f}" for part in found["parts"])
    chance = "" if not found["by_chance"] else " by chance {:.4f} ± {:.4f},".format(*found["by_chance"])
    return f"slices add {found['added']:.4f} (by sixths of the time {parts}),{chance} {found['touched']} of {found['times']} steps, {found['median_ms']:.1f} ms a step"


def table(work, times, against):
    """Every kind of process against one, by wall time and by the launching thread's processor time.

    `times` has (wall, processor) seconds by kind, generation and round.
    """
    found = {}
    for name, generations in times.items():
        if name == against or against not in times:
            continue
        row = {}
        for index, clock in enumerate(("wall", "thread")):
            ratios = [[value[index] / base[index] for value, base in zip(values, bases)] for values, bases in zip(generations, times[against])]
            every = [ratio for generation in ratios for ratio in generation]
            row["rounds"] = len(every)
            row[clock] = interval(every)
            row[f"{clock} by generation"] = [statistics.median(generation) for generation in ratios]
            flat = [[time[index] for generation in times[kind] for time in generation] for kind in (name, against)]
            row[f"{clock}, sum"] = sums(*flat)
        found[f"{work}: {name} / {against}"] = row
    return found


def line(title, row):
    def text(key):
        value, low, high = row[key]
        return f"{value:.3f} ({low:.3f} to {high:.3f})"

    generations = " ".join(f"{median:.3f}" for median in row["thread by generation"])
    wall = f"wall {text('wall')}, sum {text('wall, sum')}"
    thread = f"thread {text('thread')}, sum {text('thread, sum')}, by generation {generations}"
    return f"{title}: {wall}; {thread}; {row['rounds']} rounds"
