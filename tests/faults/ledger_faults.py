"""Faults of what is remembered and told: charges, commits, crashes, anchors, sources, caps, logs, pages, signatures."""

from __future__ import annotations

from pathlib import Path

from dprelease.engines.duck.engine import DuckDBEngine
from dprelease.ledger import open_ledger
from dprelease.ledger.anchors.anchors import Anchor
from tests.faults.fault import Fault
from tests.faults.planting import Edit, Seen

__all__ = ["LEDGER_FAULTS"]

_URL = "sqlite:///state/ledger.db"
_LEDGER = {"ledger": lambda folder: open_ledger(_URL, folder), "url": lambda _: _URL}


def _anchor(folder: Path) -> object:
    return Anchor(folder / "anchors" / "head")


def _files(folder: Path) -> object:
    for name, text in (("people", "id\nx\ny\n"), ("jobs-1", "id,pay\nx,5\n"), ("jobs-2", "id,pay\ny,7\n")):
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    return folder


def _engine(folder: Path) -> object:
    return DuckDBEngine(folder, {})


LEDGER_FAULTS: tuple[Fault, ...] = (
    Fault(
        "last-commit-wins",
        "replay",
        "two answers of one step",
        Seen("conformance.test_ledgers", "test_the_first_commit_wins_for_ever", {}, _LEDGER),
        Edit(
            "ledger.ledger:Ledger.commit_all",
            "kept = self.stored_all(drawn)",
            "kept = dict(drawn)",
        ),
    ),
    Fault(
        "keys-as-drawn",
        "replay",
        "a second selection, which the others are then counted over",
        Seen(
            "unit.test_draw", "test_a_run_that_was_cut_off_after_the_selection_counts_over_the_keys_that_were_committed"
        ),
        Edit(
            "release.draw:_Run.measure",
            "chosen = stored.get(self.batch.selection)",
            "chosen = None",
        ),
    ),
    Fault(
        "measured-again",
        "replay",
        "a second draw of what has an answer",
        Seen("unit.test_draw", "test_a_measured_step_is_neither_read_nor_drawn_again"),
        Edit("release.draw:draw_batch", "if step.id not in stored]", "]"),
    ),
    Fault(
        "refund-after-a-read",
        "ledger order",
        "a refund for an answer that was drawn",
        Seen("unit.test_ledger_accounts", "test_nothing_is_given_back_once_it_was_read", {}, _LEDGER),
        Edit(
            "ledger.tables.reserving:record_void",
            'reservation.state != "open" or read:',
            'reservation.state != "open":',
        ),
    ),
    Fault(
        "window-by-the-lifetime-cap",
        "filters",
        "more in a window than its cap",
        Seen(
            "unit.test_ledger_accounts",
            "test_a_window_says_no_while_the_lifetime_has_room_and_the_other_way_round",
            {},
            _LEDGER,
        ),
        Edit(
            "ledger.model.admission:_assess_sum",
            "charge.cap if account.window is None else account.window.cap",
            "charge.cap",
        ),
    ),
    Fault(
        "a-restated-plan-again",
        "ledger order",
        "a second answer to the same question",
        Seen("unit.test_ledger_restating", "test_no_plan_is_measured_twice_for_a_release_and_period", {}, _LEDGER),
        Edit("ledger.model.lifecycle:replaces", "if why and used:", "if False:"),
    ),
    Fault(
        "one-secret-for-all-releases",
        "reuse",
        "which rows were left out, from another release",
        Seen("unit.test_draw", "test_every_pass_of_a_release_truncates_by_one_secret_that_is_in_no_plan"),
        Edit("ledger.ledger:Ledger.secret", "fresh = os.urandom(32)", 'fresh = b"\\1" * 32'),
    ),
    Fault(
        "two-months-of-which-one-counts",
        "filters",
        "a replaced unit that leaves one month and enters another",
        Seen(
            "unit.test_parallel_ledger",
            "test_where_units_are_replaced_the_two_months_that_lost_most_count",
            {},
            _LEDGER,
        ),
        Edit("privacy.periods:_most", "return first + everything[0]", "return first"),
    ),
    Fault(
        "an-unexpected-error-in-full",
        "logs",
        "an exact value, in the words of an error",
        Seen("unit.test_draw", "test_an_unexpected_error_is_told_by_class_and_step_alone"),
        Edit("release.draw:draw_batch", "unexpected = type(error).__name__", "unexpected = repr(error)"),
    ),
    Fault(
        "files-not-compared-after-the-read",
        "sources",
        "a mixture of two states of the data",
        Seen(
            "unit.test_sources",
            "test_files_that_changed_during_a_read_are_refused_before_anything_is_drawn",
            {"act": "changed"},
            {"folder": _files, "engine": _engine},
        ),
        Edit("release.data.sources:Pinned.reading", "    yield\n    self.check(listed)", "    yield"),
    ),
    Fault(
        "sources-without-a-key",
        "fingerprints",
        "whether a guessed file is the confidential one",
        Seen(
            "unit.test_fingerprint_hashes",
            "test_a_fingerprint_is_keyed_blake3_under_a_key_that_is_derived_for_it",
            {},
            {"tmp_path": lambda folder: folder},
        ),
        Edit("engines.files.fingerprint:_digest", "key=blake3(key, derive_key_context=_CONTEXT).digest()", ""),
    ),
    Fault(
        "plans-of-one-fingerprint",
        "fingerprints",
        "another plan under the approval of this one",
        Seen("unit.test_plan", "test_a_changed_spec_is_another_plan_and_a_comment_is_not"),
        Edit(
            "canonical:Value.fingerprint", "sha256(self.canonical().encode())", "sha256(self.canonical().encode()[:64])"
        ),
    ),
    Fault(
        "anchor-not-synced",
        "ledger order",
        "a charge that is forgotten with the power",
        Seen(
            "unit.test_ledger_anchors", "test_a_line_is_on_the_disk_before_its_writer_goes_on", {}, {"anchor": _anchor}
        ),
        Edit("ledger.anchors.anchors:Anchor.write", "    os.fsync(file)\n", "    pass\n"),
    ),
    Fault(
        "margin-of-half-the-noise",
        "accuracy",
        "nothing: margins are too small",
        Seen("statistical.test_samplers", "test_a_margin_is_the_smallest_that_holds"),
        Edit("noise.mechanisms.discrete_laplace:DiscreteLaplaceLaw.margin", "return margin", "return margin // 2"),
        beyond="margins are said of what is published already: it is a wrong number",
    ),
    Fault(
        "suppressed-by-the-exact-value",
        "suppression",
        "which cells are small",
        Seen("unit.test_draw", "test_what_is_drawn_has_the_planned_scale"),
        Edit(
            "release.draw:hidden",
            "return MECHANISMS[step.mechanism].draw(only, step.scale, sampler)",
            "from dprelease.noise.truth import true_numbers\n"
            "    return np.where(true_numbers(only) < 2, 0, MECHANISMS[step.mechanism].draw(only, step.scale, sampler))",
        ),
        spec="counts",
        audit=True,
    ),
    Fault(
        "any-signature-holds",
        "signatures",
        "nothing: a stranger cannot tell a forgery",
        Seen("unit.test_signing", "test_what_is_no_signature_of_the_bundle_is_told"),
        Edit(
            "publish.manifest:fault",
            'if not key.checks_envelope(signature["sig"], PAYLOAD_TYPE, payload):',
            "if False:",
        ),
    ),
    Fault(
        "group-of-one-step",
        "pages",
        "sentences about a unit's rows promise twice as much",
        Seen(
            "unit.test_accounting_semantics",
            "test_an_attribute_costs_what_the_draws_on_it_cost_for_two_steps",
        ),
        Edit("publish.accounting.semantics:steps_of_a_change", "REPLACE_ONE else 2", "REPLACE_ONE else 1"),
    ),
    Fault(
        "approved-by-any-key",
        "approvals",
        "nothing: anybody approves",
        Seen("unit.test_approval", "test_a_replaced_key_and_another_role_no_longer_count"),
        Edit("release.approval:_uncounted", "approver.key != approval.key", "False"),
    ),
    Fault(
        "pieces-at-another-scale",
        "path",
        "epsilon of draws in pieces x 2",
        Seen("unit.test_pieces", "test_the_noise_of_every_piece_has_the_scale_of_the_step"),
        Edit(
            "release.draw:hidden",
            "return MECHANISMS[step.mechanism].draw(only, step.scale, sampler)",
            "return MECHANISMS[step.mechanism].draw(only, step.scale / (1 if piece is None else 2), sampler)",
        ),
        beyond="draws in pieces are of tables of a million cells; an audit hides whole tables",
    ),
    Fault(
        "coin-of-the-whole-delta",
        "thresholds",
        "delta x keys of a unit",
        Seen("unit.test_draw", "test_keys_are_selected_at_the_planned_scale", {"mechanism": "optimal_selection"}),
        Edit("release.draw:selected_keys", "step.selecting.delta / step.sensitivity.l0", "step.selecting.delta"),
        spec="coins",
        audit=True,
    ),
    Fault(
        "tables-of-an-account-left-out",
        "composition",
        "nothing is charged for them",
        Seen("unit.test_filters_spent", "test_a_plan_charges_an_account_for_the_draws_from_its_tables_and_no_others"),
        Edit("plan.document.plan:ReleasePlan._events_of", "if table.account == account", "if name == account"),
    ),
)
