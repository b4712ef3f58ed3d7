"""The tables of a PostgreSQL ledger, the rules that the server itself keeps, and what a role may do.

The tables are those of `sqlite_schema`, name by name. Entries are the truth; the other tables index them so that the
server, and not only this program, refuses a second reservation of a release, a second measurement of a step, and any
change to what was written. Rules are triggers that fire ALWAYS: `session_replication_role` does not turn them off.
Beyond what SQLite can do, the server works out the hash of each entry and the digest of each content itself.

Every definition is written as PostgreSQL prints it, so that what makes a ledger also says what is wrong with one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dprelease.ledger.model.entry import KINDS
from dprelease.ledger.stores.sqlite_schema import ENDED, MEASURED, NOT_OPEN, VERSION, reserved

__all__ = ["APPLICATION", "SCHEMA", "VERSION", "findings", "grants", "statements"]

APPLICATION = "dprelease ledger"
SCHEMA = "dprelease"

_ENTRY, _RESERVATION = "REFERENCES entries(sequence)", "REFERENCES reservations(sequence)"


def _one_of(column: str, values: tuple[str, ...]) -> str:
    listed = ", ".join(f"'{value}'::text" for value in values)
    return f"CHECK (({column} = ANY (ARRAY[{listed}])))"


# Table to its columns. A `?` behind a type: may be NULL.
_TABLES: dict[str, dict[str, str]] = {
    "meta": {"version": "bigint", "application": "text", "ledger": "text"},
    "entries": {"sequence": "bigint", "previous": "text", "hash": "text", "kind": "text", "body": "text"},
    "reservations": {
        "sequence": "bigint",
        "release": "text",
        "period": "text",
        "plan": "text",
        "restates": "bigint?",
        "identity": "text",
    },
    "endings": {"reservation": "bigint", "sequence": "bigint", "kind": "text"},
    "contents": {"digest": "text", "payload": "bytea"},
    "measurements": {
        "release": "text",
        "period": "text",
        "plan": "text",
        "step": "text",
        "sequence": "bigint",
        "digest": "text",
        "identity": "text",
    },
    "secrets": {"reservation": "bigint", "secret": "bytea"},
    "sources": {"sequence": "bigint", "reservation": "bigint"},
}

_CONSTRAINTS: dict[tuple[str, str], str] = {
    ("meta", "meta_pkey"): "PRIMARY KEY (version)",
    ("entries", "entries_pkey"): "PRIMARY KEY (sequence)",
    ("entries", "entries_hash_key"): "UNIQUE (hash)",
    ("entries", "entries_kind_check"): _one_of("kind", KINDS),
    ("reservations", "reservations_pkey"): "PRIMARY KEY (sequence)",
    ("reservations", "reservations_sequence_fkey"): f"FOREIGN KEY (sequence) {_ENTRY}",
    ("reservations", "reservations_restates_fkey"): f"FOREIGN KEY (restates) {_RESERVATION}",
    ("endings", "endings_pkey"): "PRIMARY KEY (reservation)",
    ("endings", "endings_sequence_key"): "UNIQUE (sequence)",
    ("endings", "endings_kind_check"): _one_of("kind", ("close", "void", "give_up")),
    ("endings", "endings_reservation_fkey"): f"FOREIGN KEY (reservation) {_RESERVATION}",
    ("endings", "endings_sequence_fkey"): f"FOREIGN KEY (sequence) {_ENTRY}",
    ("contents", "contents_pkey"): "PRIMARY KEY (digest)",
    ("measurements", "measurements_pkey"): "PRIMARY KEY (release, period, plan, step)",
    ("measurements", "measurements_sequence_key"): "UNIQUE (sequence)",
    ("measurements", "measurements_identity_key"): "UNIQUE (identity)",
    ("measurements", "measurements_sequence_fkey"): f"FOREIGN KEY (sequence) {_ENTRY}",
    ("measurements", "measurements_digest_fkey"): "FOREIGN KEY (digest) REFERENCES contents(digest)",
    ("secrets", "secrets_pkey"): "PRIMARY KEY (reservation)",
    ("secrets", "secrets_reservation_fkey"): f"FOREIGN KEY (reservation) {_RESERVATION}",
    ("secrets", "secrets_secret_check"): "CHECK ((length(secret) = 32))",
    ("sources", "sources_pkey"): "PRIMARY KEY (sequence)",
    ("sources", "sources_sequence_fkey"): f"FOREIGN KEY (sequence) {_ENTRY}",
    ("sources", "sources_reservation_fkey"): f"FOREIGN KEY (reservation) {_RESERVATION}",
}

_INDEXES = {
    "entries_by_kind": ("entries", "(kind, sequence)"),
    "reservations_by_release": ("reservations", "(release, period)"),
    "reservations_by_identity": ("reservations", "(identity)"),
    "sources_by_reservation": ("sources", "(reservation)"),
}

# What makes a row wrong. The hash is `fingerprint([sequence, previous, kind, body])`; `to_json` of a text writes the
# same bytes as canonical JSON does.
_RULES: dict[tuple[str, str], str] = {
    ("entries", "is not the next entry"): """
        NEW.sequence IS DISTINCT FROM (SELECT coalesce(max(sequence), 0) + 1 FROM entries)
        OR NEW.previous IS DISTINCT FROM
            coalesce((SELECT hash FROM entries ORDER BY sequence DESC LIMIT 1), '')
        OR NEW.hash IS DISTINCT FROM encode(sha256(convert_to(
            '[' || NEW.sequence || ',' || to_json(NEW.previous) || ',' || to_json(NEW.kind) || ','
            || to_json(NEW.body) || ']', 'UTF8')), 'hex')""",
    ("reservations", "is already reserved"): reserved("IS DISTINCT FROM"),
    ("endings", "has ended, or was measured"): ENDED,
    ("measurements", "is measured, or is not reserved"): MEASURED,
    ("sources", "is not of an open reservation"): NOT_OPEN,
    ("contents", "is not what its digest says"): """
        NEW.digest IS DISTINCT FROM encode(sha256(NEW.payload), 'hex')""",
    ("secrets", "is not of an open reservation"): NOT_OPEN,
}

# The bits of `pg_trigger.tgtype`.
_ROW, _BEFORE, _INSERT, _DELETE, _UPDATE, _TRUNCATE = 1, 2, 4, 8, 16, 32
_VERBS = {_INSERT: "INSERT", _DELETE: "DELETE", _UPDATE: "UPDATE", _TRUNCATE: "TRUNCATE"}
_PATH = f"{SCHEMA}, pg_temp"  # a temporary table never stands in for one of ours


def _bodies() -> dict[str, str]:
    """Name to source of every trigger function."""
    bodies = {}
    for (table, why), broken in _RULES.items():
        bodies[f"{table}_rule"] = f"""
BEGIN
    IF current_setting('transaction_isolation') <> 'serializable' THEN
        RAISE EXCEPTION '{table}: a ledger is only written in a serializable transaction';
    END IF;
    IF {broken.strip()} THEN
        RAISE EXCEPTION '{table}: this {why}';
    END IF;
    RETURN NEW;
END"""
    bodies["kept"] = """
BEGIN
    RAISE EXCEPTION '%: a ledger is only ever added to', TG_TABLE_NAME;
END"""
    bodies["secrets_ended"] = """
BEGIN
    IF NOT EXISTS (SELECT 1 FROM endings WHERE reservation = OLD.reservation) THEN
        RAISE EXCEPTION 'secrets: this is of an open reservation';
    END IF;
    RETURN OLD;
END"""
    return bodies


# A release's key dies with the release. Whoever may only add rows calls this, and it takes no open release's key.
_FORGET = """
BEGIN
    DELETE FROM secrets AS s WHERE s.reservation = $1
    AND EXISTS (SELECT 1 FROM endings AS e WHERE e.reservation = $1);
END"""


def _triggers() -> dict[tuple[str, str], tuple[int, str]]:
    """Table and name to bits and function of every trigger."""
    triggers = {(table, f"{table}_rule"): (_ROW | _BEFORE | _INSERT, f"{table}_rule") for table, _ in _RULES}
    for table in _TABLES:
        verbs = _UPDATE | _TRUNCATE | (0 if table == "secrets" else _DELETE)
        triggers[table, f"{table}_kept"] = (_BEFORE | verbs, "kept")
    triggers["secrets", "secrets_ended"] = (_ROW | _BEFORE | _DELETE, "secrets_ended")
    return triggers


def statements() -> Iterator[str]:
    """What makes an empty ledger, in order; the owner runs them in one transaction."""
    yield f"CREATE SCHEMA {SCHEMA}"
    for table, columns in _TABLES.items():
        # Byte order, as SQLite has it; also, a newer C library never changes the order under an index.
        lines = []
        for name, kind in columns.items():
            order = ' COLLATE "C"' if kind == "text" else ""
            lines.append(f"{name} {kind.rstrip('?')}{order}{'' if '?' in kind else ' NOT NULL'}")
        lines += [f"CONSTRAINT {name} {text}" for (of, name), text in _CONSTRAINTS.items() if of == table]
        yield f"CREATE TABLE {table} ({', '.join(lines)})"
    for name, (table, columns_of) in _INDEXES.items():
        yield f"CREATE INDEX {name} ON {table} USING btree {columns_of}"
    for name, body in _bodies().items():
        yield f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SET search_path = {_PATH} AS $dpr${body}$dpr$"
    yield (
        "CREATE FUNCTION forget(bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER "
        f"SET search_path = {_PATH} AS $dpr${_FORGET}$dpr$"
    )
    for (table, name), (bits, function) in _triggers().items():
        verbs = " OR ".join(verb for bit, verb in _VERBS.items() if bits & bit)
        each = "ROW" if bits & _ROW else "STATEMENT"
        yield f"CREATE TRIGGER {name} BEFORE {verbs} ON {table} FOR EACH {each} EXECUTE FUNCTION {function}()"
        yield f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}"
    yield f"REVOKE ALL ON ALL TABLES IN SCHEMA {SCHEMA} FROM PUBLIC"
    yield f"REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {SCHEMA} FROM PUBLIC"
    yield f"INSERT INTO meta VALUES ({VERSION}, '{APPLICATION}', gen_random_uuid()::text)"  # noqa: S608 - constants


def grants(role: str) -> Iterator[str]:
    """What lets a role run releases: look, add, and forget the key of an ended release; nothing else.

    Args:
        role: Its name, quoted as an identifier.
    """
    yield f"GRANT USAGE ON SCHEMA {SCHEMA} TO {role}"
    yield f"GRANT SELECT ON meta TO {role}"
    yield f"GRANT SELECT, INSERT ON {', '.join(table for table in _TABLES if table != 'meta')} TO {role}"
    yield f"GRANT EXECUTE ON FUNCTION forget(bigint) TO {role}"


_ASKED = {
    "table": """
        SELECT relname, '', concat_ws(' ', relkind, relpersistence, relrowsecurity, relhasrules, relhassubclass)
        FROM pg_class WHERE relnamespace = 'dprelease'::regnamespace AND relkind NOT IN ('i', 'I', 't')""",
    "column": """
        SELECT c.relname, a.attname, concat_ws(' ', format_type(a.atttypid, a.atttypmod), l.collname,
            CASE WHEN a.attnotnull THEN 'NOT NULL' END, CASE WHEN a.atthasdef THEN 'default' END)
        FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
        LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
        WHERE c.relnamespace = 'dprelease'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped""",
    "constraint": """
        SELECT c.relname, k.conname, pg_get_constraintdef(k.oid)
        FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.conrelid
        WHERE k.connamespace = 'dprelease'::regnamespace AND k.contype NOT IN ('n', 't')""",
    "index": """
        SELECT c.relname, x.relname, concat_ws(' ', pg_get_indexdef(i.indexrelid),
            CASE WHEN NOT i.indisvalid THEN 'invalid' END)
        FROM pg_index AS i JOIN pg_class AS x ON x.oid = i.indexrelid JOIN pg_class AS c ON c.oid = i.indrelid
        WHERE c.relnamespace = 'dprelease'::regnamespace AND c.relkind = 'r'
        AND NOT EXISTS (SELECT 1 FROM pg_constraint AS k WHERE k.conindid = x.oid AND k.contype IN ('p', 'u'))""",
    "trigger": """
        SELECT c.relname, t.tgname, concat_ws(' ', t.tgtype, t.tgenabled, p.proname, t.tgqual::text)
        FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid JOIN pg_proc AS p ON p.oid = t.tgfoid
        WHERE c.relnamespace = 'dprelease'::regnamespace AND NOT t.tgisinternal""",
    "function": """
        SELECT p.proname, pg_get_function_identity_arguments(p.oid), concat_ws(' ', l.lanname, p.provolatile,
            p.prosecdef, array_to_string(p.proconfig, ' '), p.prosrc)
        FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
        WHERE p.pronamespace = 'dprelease'::regnamespace""",
}

# Whoever is not the owner may look and add.
_MAY = """
    SELECT DISTINCT c.relname, CASE a.grantee WHEN 0 THEN 'everybody' ELSE pg_get_userbyid(a.grantee) END,
        a.privilege_type
    FROM pg_class AS c, aclexplode(c.relacl) AS a
    WHERE c.relnamespace = 'dprelease'::regnamespace AND a.grantee <> c.relowner
    AND (a.privilege_type NOT IN ('SELECT', 'INSERT') OR c.relname = 'meta' AND a.privilege_type <> 'SELECT')
    ORDER BY 1, 2, 3"""


def _expected() -> dict[str, dict[tuple[str, str], str]]:
    columns = {
        (table, name): kind.rstrip("?") + (" C" if kind == "text" else "") + ("" if "?" in kind else " NOT NULL")
        for table, of in _TABLES.items()
        for name, kind in of.items()
    }
    functions = {(name, ""): f"plpgsql v f search_path={_PATH} {body}" for name, body in _bodies().items()} | {
        ("forget", "bigint"): f"plpgsql v t search_path={_PATH} {_FORGET}"
    }
    return {
        "table": {(table, ""): "r p f f f" for table in _TABLES},
        "column": columns,
        "constraint": _CONSTRAINTS,
        "index": {
            (table, name): f"CREATE INDEX {name} ON {SCHEMA}.{table} USING btree {of}"
            for name, (table, of) in _INDEXES.items()
        },
        "trigger": {key: f"{bits} A {function}" for key, (bits, function) in _triggers().items()},
        "function": functions,
    }


def findings(ask: Callable[[str], list[tuple[object, ...]]]) -> list[str]:
    """What of the tables, rules and rights is missing, changed or too much; empty: all is as dprelease makes it.

    Args:
        ask: Runs a query with `dprelease` as the search path.
    """
    wrong = []
    for sort, expected in _expected().items():
        actual = {(str(row[0]), str(row[1])): str(row[2]) for row in ask(_ASKED[sort])}
        wrong += [f"{sort} `{name}` {how}" for name, how in _differences(expected, actual)]
    wrong += [f"{who} may {verb} `{table}` of the ledger: a ledger is only added to" for table, who, verb in ask(_MAY)]
    return wrong


def _differences(
    expected: Mapping[tuple[str, str], str], actual: Mapping[tuple[str, str], str]
) -> Iterator[tuple[str, str]]:
    for key in sorted(expected.keys() | actual.keys()):
        name = ".".join(part for part in key if part)
        if key not in actual:
            yield name, "of the ledger is missing"
        elif key not in expected:
            yield name, "does not belong to a ledger"
        elif expected[key] != actual[key]:
            yield name, "of the ledger is not as dprelease makes it"
