-- An inbox as version 1 kept it: a session whose host has died, an answered ask and one that was pending.
PRAGMA application_id = 173808396;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    body TEXT NOT NULL
);
INSERT INTO "changes" VALUES(1,'session','s1','{"id":"s1","runtime":"claude","title":"Set up","host_id":"host_BNVLobFYYSI4xwWM","started_at":"2026-11-30T12:00:00.000000+00:00","ended_at":null,"ending":null,"running":true,"seq":0}');
INSERT INTO "changes" VALUES(2,'entry','q1','{"state":"pending","deadline":"2026-11-30T13:00:00.000000+00:00"}');
INSERT INTO "changes" VALUES(3,'entry','q2','{"state":"pending","deadline":"2026-11-30T13:00:00.000000+00:00"}');
INSERT INTO "changes" VALUES(4,'entry','q1','{"state":"answered","reply":{"answered":[{"selected":[0],"text":null}],"by":"web:alice"},"by":"web:alice","deadline":"2026-11-30T13:00:00.000000+00:00","resolved_at":"2026-11-30T12:00:00.000000+00:00"}');
INSERT INTO "changes" VALUES(5,'entry','q1','{"state":"delivered","reply":{"answered":[{"selected":[0],"text":null}],"by":"web:alice"},"by":"web:alice","told":"answered","deadline":"2026-11-30T13:00:00.000000+00:00","resolved_at":"2026-11-30T12:00:00.000000+00:00","settled_at":"2026-11-30T12:00:00.000000+00:00"}');
CREATE TABLE entries (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    host_id TEXT NOT NULL,
    runtime TEXT NOT NULL,
    state TEXT NOT NULL,
    is_open INTEGER NOT NULL,
    settled_at TEXT,
    seq INTEGER NOT NULL,
    ask TEXT NOT NULL,
    status TEXT NOT NULL
);
INSERT INTO "entries" VALUES(1,'q1','s1','host_BNVLobFYYSI4xwWM','claude','delivered',0,'2026-11-30T12:00:00.000000+00:00',5,'{"id":"q1","session_id":"s1","questions":[{"question":"Which database should the service use?","header":"Database","options":[{"label":"PostgreSQL","description":""},{"label":"SQLite","description":""}],"multiSelect":false}],"asked_at":"2026-11-30T12:00:00.000000+00:00","deadline":"2026-11-30T13:00:00.000000+00:00","tool_call_id":null,"agent_id":null,"kind":"question"}','{"state":"delivered","reply":{"answered":[{"selected":[0],"text":null}],"by":"web:alice"},"by":"web:alice","told":"answered","deadline":"2026-11-30T13:00:00.000000+00:00","resolved_at":"2026-11-30T12:00:00.000000+00:00","settled_at":"2026-11-30T12:00:00.000000+00:00"}');
INSERT INTO "entries" VALUES(2,'q2','s1','host_BNVLobFYYSI4xwWM','claude','pending',1,NULL,3,'{"id":"q2","session_id":"s1","questions":[{"question":"Which database should the service use?","header":"Database","options":[{"label":"PostgreSQL","description":""},{"label":"SQLite","description":""}],"multiSelect":false}],"asked_at":"2026-11-30T12:00:00.000000+00:00","deadline":"2026-11-30T13:00:00.000000+00:00","tool_call_id":null,"agent_id":null,"kind":"question"}','{"state":"pending","deadline":"2026-11-30T13:00:00.000000+00:00"}');
CREATE TABLE events (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL,
    body TEXT NOT NULL
);
INSERT INTO "events" VALUES(1,'s1','{"event":"text","text":"hello"}');
CREATE TABLE hosts (id TEXT PRIMARY KEY) WITHOUT ROWID;
INSERT INTO "hosts" VALUES('host_BNVLobFYYSI4xwWM');
CREATE TABLE leases (
    id TEXT PRIMARY KEY,
    surface TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    session_ids TEXT
) WITHOUT ROWID;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('floor','0');
INSERT INTO "meta" VALUES('id','inbox_wnt-1kZMuhfPqyAA');
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    host_id TEXT NOT NULL,
    is_running INTEGER NOT NULL,
    ended_at TEXT,
    seq INTEGER NOT NULL,
    body TEXT NOT NULL
);
INSERT INTO "sessions" VALUES(1,'s1','host_BNVLobFYYSI4xwWM',1,NULL,1,'{"id":"s1","runtime":"claude","title":"Set up","host_id":"host_BNVLobFYYSI4xwWM","started_at":"2026-11-30T12:00:00.000000+00:00","ended_at":null,"ending":null,"running":true,"seq":0}');
CREATE INDEX sessions_running ON sessions (host_id) WHERE is_running;
CREATE INDEX entries_open ON entries (number) WHERE is_open;
CREATE INDEX entries_session ON entries (session_id, number);
CREATE INDEX entries_settled ON entries (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX changes_key ON changes (kind, key);
CREATE INDEX events_session ON events (session_id, position);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('changes',5);
INSERT INTO "sqlite_sequence" VALUES('sessions',1);
INSERT INTO "sqlite_sequence" VALUES('events',1);
INSERT INTO "sqlite_sequence" VALUES('entries',2);
COMMIT;
