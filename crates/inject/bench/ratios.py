"""Ratios of times that were taken in turn, with their uncertainty."""

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


def excess(times, reach=10):
    """What times sum up to, over what they would if each were the median of those around it: what comes now and then."""
    around = [statistics.median(times[max(at - reach, 0) : at] + times[at + 1 : at + 1 + reach]) for at in range(len(times))]
    return sum(times) / sum(around)


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
