# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Rows: what they hold, how they are judged and shown.

A ratio with `>=` says how many times better the library is; one with `<=`
how many times the cost of the other it has. `reached` is None where there is
no aim or no valid result; `note` then says why.
"""
LIFTED = 0.5  # less than this over SDP is "not lifted"
UNITS = {"ns": "ns", "rate": "/s", "bytes_rate": "B/s", "get": "/s",
         "set": "/s", "cpu_gb": "s/GB", "calls": "calls/msg",
         "switched": "switches/msg"}
LESS = ("ns", "calls", "switched", "cpu_gb")  # where less is better
HEAD = ("fig", "what", "against", "it", "libsdp", "ratio", "aim", "reached",
        "SDP")


def bytes_text(n):
    for unit, size in ("MiB", 1 << 20), ("KiB", 1 << 10):
        if n >= size:
            return "%d %s" % (n // size, unit)
    return "%d B" % n


def blank(fig, what):
    return {"fig": fig, "what": what, "against": "", "unit": "", "base": None,
            "ours": None, "ratio": None, "op": "", "aim": None,
            "aim_text": "", "reached": None, "share": None, "note": ""}


def absent(fig, what, why):
    """Something that it takes is not on this machine."""
    return {**blank(fig, what), "note": "not measured: " + why}


def failed(fig, what, why):
    """It was tried and went wrong: never to be taken for `absent`."""
    return {**blank(fig, what), "note": "failed: " + why}


def row(fig, what, base, ours, key, op, aim, against="TCP", lifted=True):
    """Two series, compared by the medians of `key`."""
    r = {**blank(fig, what), "against": against, "unit": UNITS[key],
         "op": op, "aim": aim,
         "aim_text": "%s %g" % (op, aim) if aim is not None else ""}
    for name, s in ("libsdp", ours), (against, base):
        if s.error or not s.results:
            r["note"] = "failed: %s: %s" % (name, s.error or "nothing")
    if r["note"]:
        return r
    r["base"], r["ours"] = base.median(key), ours.median(key)
    r["runs"] = {"base": base.values(key), "ours": ours.values(key)}
    r["share"] = ours.share()
    if (op == ">=") == (key in LESS):
        above, below = r["base"], r["ours"]
    else:
        above, below = r["ours"], r["base"]
    r["ratio"] = above / below if below else None
    if lifted and (r["share"] is None or r["share"] < LIFTED):
        r["note"] = "not lifted"
    elif aim is not None and r["ratio"] is not None:
        r["reached"] = r["ratio"] >= aim if op == ">=" else r["ratio"] <= aim
    return r


def value_row(fig, what, base, ours, unit, aim_text, reached):
    """Two numbers whose difference counts; proof is the caller's business."""
    return {**blank(fig, what), "against": "TCP", "unit": unit, "base": base,
            "ours": ours, "aim_text": aim_text, "reached": reached}


# --- text -------------------------------------------------------------------


def number(x, unit):
    """Three digits and a unit that fits."""
    if x is None:
        return ""
    if unit in ("/s", "B/s"):
        for factor, letter in (1e9, "G"), (1e6, "M"), (1e3, "k"):
            if x >= factor:
                return "%.3g %s%s" % (x / factor, letter, unit)
    if unit == "ns" and x >= 1e6:
        return "%.3g ms" % (x / 1e6)
    if unit == "ns" and x >= 1e3:
        return "%.3g us" % (x / 1e3)
    return "%.3g %s" % (x, unit) if x < 1000 else "%.0f %s" % (x, unit)


def cells(r):
    verdict = {None: "", True: "yes", False: "no"}[r["reached"]]
    if r["note"]:
        verdict = "%s (%s)" % (verdict, r["note"]) if verdict else r["note"]
    ratio = r["ratio"]
    text = "" if ratio is None else \
        "%.2g" % ratio if ratio < 0.1 else \
        "%.2f" % ratio if ratio < 100 else "%.0f" % ratio
    share = r["share"]
    return (r["fig"], r["what"], r["against"], number(r["base"], r["unit"]),
            number(r["ours"], r["unit"]), text, r["aim_text"], verdict,
            "" if share is None else "%.0f%%" % (share * 100))


def text_table(rows):
    lines = [HEAD] + [cells(r) for r in rows]
    width = [max(len(x[i]) for x in lines) for i in range(len(HEAD))]
    right = (3, 4, 5, 8)
    return "\n".join("  ".join(
        c.rjust(w) if i in right else c.ljust(w)
        for i, (c, w) in enumerate(zip(x, width))).rstrip() for x in lines)


def markdown(rows):
    out = ["| %s |" % " | ".join(HEAD),
           "|%s|" % "|".join("---:" if i in (3, 4, 5, 8) else "---"
                             for i in range(len(HEAD)))]
    out += ["| %s |" % " | ".join(c.replace("|", "\\|") for c in cells(r))
            for r in rows]
    return "\n".join(out)


# --- real programs --------------------------------------------------------


NEVER_SLOWER = 0.97
CELLS = ("what", "TCP", "libsdp", "ratio", "noise", "cpu", "SDP", "")


def slower(r):
    """Is the ratio below the aim, and by more than noise?"""
    return r["ratio"] is not None and \
        r["ratio"] + r["noise"] < NEVER_SLOWER


def below(r):
    return r["ratio"] is not None and r["ratio"] < NEVER_SLOWER


def program_cells(r):
    if r["ratio"] is None:
        return (r["what"], "", "", "", "", "", "", r["note"])
    said = [r["note"]] if r["note"] else []
    if slower(r):
        said.append("slower")
    elif below(r):
        said.append("within noise")
    return (r["what"], number(r["base"], r["unit"]),
            number(r["ours"], r["unit"]), "%.2f" % r["ratio"],
            "%.2f" % r["noise"], "" if r["cpu"] is None else "%.2f" % r["cpu"],
            "" if r["share"] is None else "%.0f%%" % (r["share"] * 100),
            "; ".join(said))


def program_table(rows):
    lines = [CELLS] + [program_cells(r) for r in rows]
    width = [max(len(x[i]) for x in lines) for i in range(len(CELLS))]
    return "\n".join("  ".join(
        c.rjust(w) if 0 < i < 7 else c.ljust(w)
        for i, (c, w) in enumerate(zip(x, width))).rstrip() for x in lines)


def program_markdown(rows):
    out = ["| %s |" % " | ".join(CELLS), "|---|%s---|" % ("---:|" * 6)]
    return "\n".join(out + ["| %s |" % " | ".join(program_cells(r))
                            for r in rows])


def program_summary(rows):
    seen = [r for r in rows if r["ratio"] is not None]
    text = "%d cells: %d of at least %g times TCP, %d below it within their " \
        "noise, %d slower" % (
            len(seen), sum(not below(r) for r in seen), NEVER_SLOWER,
            sum(below(r) and not slower(r) for r in seen),
            sum(map(slower, seen)))
    gone = sum(r["note"].startswith("not measured") for r in rows)
    text += "; %d not measured" % gone if gone else ""
    bad = failures(rows)
    return text + ("; %d FAILED" % bad if bad else "")


def summary(rows):
    judged = [r for r in rows if r["aim_text"]]
    yes = sum(r["reached"] is True for r in judged)
    no = sum(r["reached"] is False for r in judged)
    text = "%d rows with an aim: %d reached, %d not, %d without valid result" \
        % (len(judged), yes, no, len(judged) - yes - no)
    gone = sum(r["note"].startswith("not measured") for r in rows)
    text += "; %d not measured" % gone if gone else ""
    bad = failures(rows)
    return text + ("; %d FAILED" % bad if bad else "")


def failures(rows):
    return sum(r["note"].startswith("failed") for r in rows)
