"""What ncu prints while it profiles launches: a few characters at a time, with the program's own lines in between."""

import time

NAMES = ["indexSelectSmallIndex", "nvjet_sm90_tst_64x8_64x16_4x1...", "reduce_kernel"]


def lines(count):
    return [f'==PROF== Profiling "{NAMES[number % len(NAMES)]}" - {number} (1/1): 0%....50%....100% - 25 passes\n'
            for number in range(count)]


def show(stream, count, pause):
    for line in lines(count):
        cuts = [line.index("...."), line.index("100%"), line.index(" - 25 p") + 7, len(line)]
        start = 0
        for cut in cuts:
            stream.write(line[start:cut])
            stream.flush()
            time.sleep(pause)
            start = cut
