/* SPDX-License-Identifier: Apache-2.0 */
/*
 * migrate.c - the schema, as a series of steps
 *
 * Step n turns a file of version n into one of version n + 1; a new file has version 0. A
 * released step is never changed; a change needs a new step. Each step is one
 * transaction, together with its version number, so a crash leaves a file with one of the
 * versions, never between two.
 *
 * An update can be reverted: most steps only add tables, indexes and columns with
 * defaults, which an older program does not notice. So there are two numbers: the pragma
 * user_version is the version that a program must know to use the file, and meta has the
 * number of completed steps. A step must therefore be correct for any data that an older
 * program has written in the meantime.
 */
#include <errno.h>
#include <stdio.h>

#include "db/db_internal.h"

/* "wrrn": identifies the file for file(1) and for Warren. */
#define APPLICATION_ID 0x7772726e

/* The last step that an older program would not understand. */
#define MUST_KNOW 3

static const char *const steps[] = {
	/*
	 * Each page that a commit changes costs two writes, so there are only the tables
	 * and indexes that calls need: sandbox.c creates seq, not AUTOINCREMENT, and
	 * labels are also part of the row. Indexes begin with the owner, so that a
	 * tenant's listing does not read rows of others; and the index of owners contains
	 * the state, so that a listing by state reads only the rows that it returns.
	 */
	"CREATE TABLE meta ("
	"  key TEXT PRIMARY KEY,"
	"  value TEXT NOT NULL"
	") STRICT, WITHOUT ROWID;"

	"CREATE TABLE tenants ("
	"  name TEXT PRIMARY KEY,"
	"  created_at INTEGER NOT NULL,"
	"  max_sandboxes INTEGER NOT NULL, max_execs INTEGER NOT NULL,"
	"  max_memory INTEGER NOT NULL, max_cpu_millis INTEGER NOT NULL,"
	"  max_disk INTEGER NOT NULL,"
	"  sandboxes INTEGER NOT NULL DEFAULT 0 CHECK (sandboxes >= 0),"
	"  execs INTEGER NOT NULL DEFAULT 0 CHECK (execs >= 0),"
	"  memory INTEGER NOT NULL DEFAULT 0 CHECK (memory >= 0),"
	"  cpu_millis INTEGER NOT NULL DEFAULT 0 CHECK (cpu_millis >= 0),"
	"  disk INTEGER NOT NULL DEFAULT 0 CHECK (disk >= 0)"
	") STRICT, WITHOUT ROWID;"

	"CREATE TABLE tokens ("
	"  seq INTEGER PRIMARY KEY,"
	"  id TEXT NOT NULL UNIQUE,"
	"  hash BLOB NOT NULL UNIQUE,"
	"  tenant TEXT NOT NULL REFERENCES tenants (name) ON DELETE CASCADE,"
	"  name TEXT NOT NULL,"
	"  scopes TEXT NOT NULL,"
	"  created_at INTEGER NOT NULL,"
	"  expires_at INTEGER NOT NULL,"
	"  last_used INTEGER NOT NULL DEFAULT 0,"
	"  revoked_at INTEGER NOT NULL DEFAULT 0"
	") STRICT;"
	"CREATE INDEX tokens_of_tenant ON tokens (tenant);"

	"CREATE TABLE sandboxes ("
	"  seq INTEGER PRIMARY KEY,"
	"  id TEXT NOT NULL UNIQUE,"
	"  owner TEXT NOT NULL REFERENCES tenants (name),"
	"  state INTEGER NOT NULL,"
	"  backend TEXT NOT NULL,"
	"  image TEXT, network TEXT, name TEXT, template TEXT,"
	"  spec TEXT, enforced TEXT, error TEXT,"
	"  labels BLOB,"
	"  memory INTEGER NOT NULL, cpu_millis INTEGER NOT NULL, disk INTEGER NOT NULL,"
	"  created_at INTEGER NOT NULL, changed_at INTEGER NOT NULL,"
	"  expires_at INTEGER NOT NULL, idle_timeout_ms INTEGER NOT NULL,"
	"  last_used INTEGER NOT NULL,"
	"  request_key TEXT, request_hash BLOB"
	") STRICT;"
	"CREATE INDEX sandboxes_of_owner ON sandboxes (owner, seq, state);"
	"CREATE INDEX sandboxes_of_request ON sandboxes (owner, request_key)"
	"  WHERE request_key IS NOT NULL;"

	"CREATE TABLE labels ("
	"  owner TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,"
	"  seq INTEGER NOT NULL,"
	"  PRIMARY KEY (owner, key, value, seq)"
	") STRICT, WITHOUT ROWID;"

	"CREATE TABLE execs ("
	"  sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,"
	"  number INTEGER NOT NULL,"
	"  id TEXT NOT NULL UNIQUE,"
	"  argv TEXT NOT NULL, cwd TEXT, user TEXT,"
	"  pty INTEGER NOT NULL, session INTEGER NOT NULL,"
	"  started_at INTEGER NOT NULL, timeout_ms INTEGER NOT NULL,"
	"  journal TEXT,"
	"  ended_at INTEGER,"
	"  exit_code INTEGER, signal INTEGER, timed_out INTEGER, oom INTEGER,"
	"  wall_usec INTEGER, user_usec INTEGER, system_usec INTEGER,"
	"  max_memory INTEGER, read_bytes INTEGER, written_bytes INTEGER,"
	"  PRIMARY KEY (sandbox, number)"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX execs_running ON execs (sandbox) WHERE ended_at IS NULL;"

	"CREATE TABLE sessions ("
	"  seq INTEGER PRIMARY KEY,"
	"  id TEXT NOT NULL UNIQUE,"
	"  sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,"
	"  exec TEXT NOT NULL UNIQUE REFERENCES execs (id) ON DELETE CASCADE,"
	"  shell TEXT NOT NULL,"
	"  created_at INTEGER NOT NULL, last_used INTEGER NOT NULL,"
	"  serial INTEGER NOT NULL"
	") STRICT;"
	"CREATE INDEX sessions_of_sandbox ON sessions (sandbox, seq);"

	"INSERT INTO tenants (name, created_at, max_sandboxes, max_execs, max_memory,"
	"                     max_cpu_millis, max_disk)"
	"  VALUES ('" DB_LOCAL "', unixepoch() * 1000, 9223372036854775807,"
	"          9223372036854775807, 9223372036854775807, 9223372036854775807,"
	"          9223372036854775807);",

	/* Before this step, there was only one backend, with this tier. */
	"ALTER TABLE sandboxes ADD COLUMN tier TEXT NOT NULL DEFAULT 'namespace';",

	/* Sessions with a name; tokens for one sandbox, which are deleted with it. */
	"ALTER TABLE sessions ADD COLUMN name TEXT;"
	"ALTER TABLE tokens ADD COLUMN sandbox TEXT"
	"  REFERENCES sandboxes (id) ON DELETE CASCADE;"
	"CREATE INDEX tokens_of_sandbox ON tokens (sandbox) WHERE sandbox IS NOT NULL;",

	/*
	 * Events that outlive the process. `clock` is the time by which they are deleted.
	 * Ids begin with the time, so that an older cursor is below all of them. For an
	 * exec whose sandbox failed, a column records that its end was reported.
	 */
	"CREATE TABLE events ("
	"  id INTEGER PRIMARY KEY,"
	"  at INTEGER NOT NULL, clock INTEGER NOT NULL,"
	"  type TEXT NOT NULL,"
	"  owner TEXT, sandbox TEXT, object TEXT, image TEXT,"
	"  state INTEGER NOT NULL, reason TEXT,"
	"  exit_code INTEGER, signal INTEGER, timed_out INTEGER, oom INTEGER,"
	"  wall_usec INTEGER, user_usec INTEGER, system_usec INTEGER,"
	"  max_memory INTEGER, read_bytes INTEGER, written_bytes INTEGER"
	") STRICT;"
	"INSERT INTO meta (key, value) VALUES ('event_base', unixepoch() * 1000000);"
	"ALTER TABLE execs ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;"
	"UPDATE execs SET lost = 1 WHERE ended_at IS NULL AND sandbox IN"
	"  (SELECT id FROM sandboxes WHERE state = 4);",

	/* Idempotency keys that outlive their sandboxes; an index to prune tokens. */
	"CREATE TABLE requests ("
	"  seq INTEGER PRIMARY KEY,"
	"  owner TEXT NOT NULL REFERENCES tenants (name) ON DELETE CASCADE,"
	"  key TEXT NOT NULL,"
	"  hash BLOB NOT NULL,"
	"  at INTEGER NOT NULL,"
	"  UNIQUE (owner, key)"
	") STRICT;"
	"CREATE INDEX requests_of_owner ON requests (owner, seq);"
	"CREATE INDEX requests_by_time ON requests (at);"
	"CREATE INDEX tokens_revoked ON tokens (revoked_at) WHERE revoked_at <> 0;"
	"CREATE INDEX tokens_expiring ON tokens (expires_at) WHERE expires_at <> 0;",

	/*
	 * The names of a tenant's sandboxes become unique. If several sandboxes have the
	 * same name, the oldest keeps it, and the id is appended to the names of the
	 * others. An older program that reuses a name gets an error.
	 */
	"UPDATE sandboxes SET name = substr(name, 1, 50) || '-' || id WHERE seq IN"
	"  (SELECT seq FROM (SELECT seq, row_number() OVER"
	"    (PARTITION BY owner, name ORDER BY seq) AS nth"
	"    FROM sandboxes WHERE name IS NOT NULL) WHERE nth > 1);"
	"CREATE UNIQUE INDEX sandboxes_by_name ON sandboxes (name, owner)"
	"  WHERE name IS NOT NULL;",

	/* The main command of a sandbox, what happens when it ends, and its last exec. */
	"ALTER TABLE sandboxes ADD COLUMN command TEXT;"
	"ALTER TABLE sandboxes ADD COLUMN on_exit INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE sandboxes ADD COLUMN main_exec TEXT;",

	/*
	 * A stopped sandbox (state 3) is charged like a running one, since its files may
	 * be in memory; only a failed one (4) is not. Compute the charges again.
	 */
	"UPDATE tenants SET (memory, cpu_millis) ="
	"  (SELECT coalesce(sum(s.memory), 0), coalesce(sum(s.cpu_millis), 0)"
	"    FROM sandboxes s WHERE s.owner = tenants.name AND s.state <> 4);",

	/* Secrets, whose values are encrypted with a key that is not in this file. */
	"CREATE TABLE secrets ("
	"  tenant TEXT NOT NULL REFERENCES tenants (name) ON DELETE CASCADE,"
	"  name TEXT NOT NULL,"
	"  sealed BLOB NOT NULL,"
	"  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,"
	"  PRIMARY KEY (tenant, name)"
	") STRICT, WITHOUT ROWID;",

	/* The network policy of a sandbox, as JSON, and the sandbox's network usage. */
	"CREATE TABLE networks ("
	"  sandbox TEXT PRIMARY KEY NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,"
	"  policy TEXT,"
	"  connections INTEGER NOT NULL DEFAULT 0, denied INTEGER NOT NULL DEFAULT 0,"
	"  bytes_in INTEGER NOT NULL DEFAULT 0, bytes_out INTEGER NOT NULL DEFAULT 0"
	") STRICT, WITHOUT ROWID;",

	/* Volumes, and the sandboxes that mount them. */
	"CREATE TABLE volumes ("
	"  id TEXT PRIMARY KEY NOT NULL,"
	"  tenant TEXT NOT NULL REFERENCES tenants (name),"
	"  name TEXT NOT NULL,"
	"  size INTEGER NOT NULL,"
	"  state INTEGER NOT NULL DEFAULT 0," /* 0: creating; 1: ready; 2: deleting */
	"  labels TEXT NOT NULL,"
	"  created_at INTEGER NOT NULL,"
	"  UNIQUE (tenant, name)"
	") STRICT, WITHOUT ROWID;"
	"CREATE TABLE volume_uses ("
	"  volume TEXT NOT NULL REFERENCES volumes (id),"
	"  sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,"
	"  PRIMARY KEY (volume, sandbox)"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX volume_uses_of_sandbox ON volume_uses (sandbox);",

	/* Snapshots, their names, and the sandboxes that were created from them. */
	"CREATE TABLE snapshots ("
	"  id TEXT PRIMARY KEY NOT NULL,"
	"  tenant TEXT NOT NULL REFERENCES tenants (name),"
	"  source TEXT NOT NULL," /* id of the sandbox */
	"  image TEXT NOT NULL DEFAULT '',"
	"  size INTEGER NOT NULL DEFAULT 0,"
	"  state INTEGER NOT NULL DEFAULT 0," /* 0: creating; 1: ready; 2: deleting */
	"  transient INTEGER NOT NULL,"       /* 1: deleted when no sandbox uses it */
	"  labels TEXT NOT NULL,"
	"  created_at INTEGER NOT NULL"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX snapshots_of_tenant ON snapshots (tenant, id);"
	"CREATE INDEX snapshots_of_image ON snapshots (image);"
	"CREATE TABLE snapshot_names ("
	"  tenant TEXT NOT NULL,"
	"  name TEXT NOT NULL,"
	"  snapshot TEXT NOT NULL REFERENCES snapshots (id) ON DELETE CASCADE,"
	"  PRIMARY KEY (tenant, name)"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX snapshot_names_of ON snapshot_names (snapshot);"
	"CREATE TABLE snapshot_uses ("
	"  sandbox TEXT PRIMARY KEY NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,"
	"  snapshot TEXT NOT NULL REFERENCES snapshots (id)"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX snapshot_uses_of ON snapshot_uses (snapshot);",

	/* Sessions all of whose commands can be undone. */
	"ALTER TABLE sessions ADD COLUMN undoable INTEGER NOT NULL DEFAULT 0;",

	/* Main commands that are to end because their sandbox hibernates: until when. */
	"ALTER TABLE execs ADD COLUMN ends_until INTEGER NOT NULL DEFAULT 0;",

	/* Contexts of the code interpreter. */
	"CREATE TABLE contexts ("
	"  id TEXT PRIMARY KEY NOT NULL,"
	"  sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,"
	"  language TEXT NOT NULL,"
	"  cwd TEXT NOT NULL,"
	"  is_default INTEGER NOT NULL,"
	"  exec TEXT NOT NULL DEFAULT '',"   /* its kernel */
	"  state INTEGER NOT NULL DEFAULT 0" /* enum context_state */
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX contexts_of_sandbox ON contexts (sandbox);",

	/* Templates that clients have built, their builds, and the tags of the builds. */
	"CREATE TABLE templates ("
	"  id TEXT PRIMARY KEY NOT NULL,"
	"  tenant TEXT NOT NULL REFERENCES tenants (name) ON DELETE CASCADE,"
	"  name TEXT NOT NULL,"
	"  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,"
	"  UNIQUE (tenant, name)"
	") STRICT, WITHOUT ROWID;"
	"CREATE TABLE template_builds ("
	"  seq INTEGER PRIMARY KEY,"
	"  id TEXT NOT NULL UNIQUE,"
	"  template TEXT NOT NULL REFERENCES templates (id) ON DELETE CASCADE,"
	"  state INTEGER NOT NULL,"            /* enum template_state */
	"  snapshot TEXT NOT NULL DEFAULT ''," /* its files */
	"  spec TEXT NOT NULL,"                /* a JSON object */
	"  reason TEXT NOT NULL DEFAULT '', step TEXT NOT NULL DEFAULT '',"
	"  logs TEXT NOT NULL DEFAULT '',"
	"  created_at INTEGER NOT NULL, ended_at INTEGER NOT NULL DEFAULT 0"
	") STRICT;"
	"CREATE INDEX template_builds_of ON template_builds (template, seq);"
	"CREATE INDEX template_builds_by_snapshot ON template_builds (snapshot)"
	"  WHERE snapshot <> '';"
	"CREATE TABLE template_tags ("
	"  template TEXT NOT NULL REFERENCES templates (id) ON DELETE CASCADE,"
	"  tag TEXT NOT NULL,"
	"  build TEXT NOT NULL REFERENCES template_builds (id) ON DELETE CASCADE,"
	"  created_at INTEGER NOT NULL,"
	"  PRIMARY KEY (template, tag)"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX template_tags_of_build ON template_tags (build);",
};

/* Run a pragma and get its value. The text is a constant, because values of pragmas
 * cannot be bound. */
static int migrate_pragma(sqlite3 *sql, const char *text, int *ret,
			  struct warren_error *err)
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(sql, text, -1, &stmt, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW)
		*ret = sqlite3_column_int(stmt, 0);
	(void)sqlite3_finalize(stmt);
	if (rc == SQLITE_ROW)
		return 0;
	return sql_error(sql, rc, err, "read its version");
}

static int migrate_apply(sqlite3 *sql, int version, struct warren_error *err)
{
	char number[256];
	int rc = sqlite3_exec(sql, "BEGIN IMMEDIATE", NULL, NULL, NULL);
	int r, done = version + 1;

	(void)snprintf(number, sizeof(number),
		       "INSERT OR REPLACE INTO meta (key, value) VALUES ('steps', '%d');"
		       "PRAGMA user_version = %d; PRAGMA application_id = %d",
		       done, done < MUST_KNOW ? done : MUST_KNOW, APPLICATION_ID);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(sql, steps[version], NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(sql, number, NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(sql, "COMMIT", NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		return 0;
	r = sql_error(sql, rc, err, "change its schema");
	(void)sqlite3_exec(sql, "ROLLBACK", NULL, NULL, NULL);
	return r;
}

int db_migrate(sqlite3 *sql, struct warren_error *err)
{
	const int newest = (int)ARRAY_SIZE(steps);
	int version = 0, application = 0, tables = 0;
	int r = migrate_pragma(sql, "PRAGMA user_version", &version, err);

	if (r == 0)
		r = migrate_pragma(sql, "PRAGMA application_id", &application, err);
	if (r == 0)
		r = migrate_pragma(sql, "SELECT count(*) FROM sqlite_schema", &tables,
				   err);
	if (r < 0)
		return r;
	if (application != APPLICATION_ID && (version != 0 || tables != 0))
		return error_set(err, EMEDIUMTYPE, "it is a database of another program");
	if (version > MUST_KNOW)
		return error_set(err, ENOTSUP,
				 "it has version %d, but this program supports "
				 "versions up to %d: start the newer warren that wrote "
				 "it",
				 version, MUST_KNOW);
	if (version == MUST_KNOW)
		r = migrate_pragma(
			sql,
			"SELECT coalesce((SELECT CAST(value AS INTEGER) FROM meta"
			"  WHERE key = 'steps'), user_version) FROM pragma_user_version",
			&version, err);
	if (r < 0)
		return r;
	for (; version < newest; version++) {
		r = migrate_apply(sql, version, err);
		if (r < 0)
			return r;
	}
	return 0;
}
