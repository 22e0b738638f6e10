-- One counter gives versions and lease numbers, another one the terms of views. Neither goes back
-- while the file exists.
CREATE TABLE hw_meta (
    name  TEXT    PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO hw_meta (name, value) VALUES ('number', 0), ('term', 0);

-- A dropped topic has no name. Its row stays until its last task is deleted.
CREATE TABLE hw_topics (
    no     INTEGER PRIMARY KEY AUTOINCREMENT,
    name   TEXT    UNIQUE,
    config TEXT    NOT NULL
);

-- at is the action time of a waiting task, the end of the lease of a running task, and the time
-- of the end of other tasks. span is the length of the lease. created, calls and failures are those of
-- 0006_record.sql. The payload comes last, so a query without it does not read it.
CREATE TABLE hw_tasks (
    seq      INTEGER PRIMARY KEY,
    topic    INTEGER NOT NULL,
    id       TEXT    NOT NULL,
    hash     INTEGER NOT NULL,
    state    INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    due      INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    lease    INTEGER NOT NULL DEFAULT 0,
    span     INTEGER NOT NULL DEFAULT 0,
    node     TEXT    NOT NULL DEFAULT '',
    error    TEXT    NOT NULL DEFAULT '',
    created  INTEGER NOT NULL DEFAULT 0,
    calls    INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    callback TEXT,
    payload  BLOB
);

CREATE UNIQUE INDEX hw_tasks_by_id ON hw_tasks (topic, id);

-- One index finds, lists and counts tasks, since each index costs every write. Tasks of one time
-- come in the order of their rows, so side by side in the table.
CREATE INDEX hw_tasks_by_time ON hw_tasks (topic, state, at);

CREATE TABLE hw_executions (
    no      INTEGER PRIMARY KEY,
    topic   INTEGER NOT NULL,
    id      TEXT    NOT NULL,
    version INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    node    TEXT    NOT NULL,
    started INTEGER, -- microseconds since the epoch
    took    INTEGER NOT NULL, -- nanoseconds
    state   INTEGER NOT NULL,
    error   TEXT    NOT NULL,
    at      INTEGER NOT NULL
);

CREATE INDEX hw_executions_by_id ON hw_executions (topic, id);

CREATE INDEX hw_executions_by_time ON hw_executions (at);

CREATE TABLE hw_fences (
    topic INTEGER NOT NULL,
    slot  INTEGER NOT NULL,
    term  INTEGER NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (topic, slot)
) WITHOUT ROWID;

CREATE TABLE hw_members (
    no     INTEGER PRIMARY KEY AUTOINCREMENT,
    name   TEXT    NOT NULL UNIQUE,
    topics TEXT    NOT NULL,
    until  INTEGER NOT NULL
);
