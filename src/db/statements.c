/* SPDX-License-Identifier: Apache-2.0 */
/*
 * statements.c - all SQL statements, as constants
 *
 * Parameters are numbered by position; callers bind them in this order.
 */
#include "db/db_internal.h"

#define SANDBOX                                                                  \
	"s.seq, s.id, s.state, s.owner, s.backend, s.image, s.network, s.name, " \
	"s.template, s.spec, s.enforced, s.error, s.memory, s.cpu_millis, "      \
	"s.disk, s.created_at, s.changed_at, s.expires_at, s.idle_timeout_ms, "  \
	"s.last_used, s.labels, s.tier, s.command, s.on_exit, s.main_exec"
#define TOKEN                                                                       \
	"id, tenant, name, scopes, created_at, expires_at, last_used, revoked_at, " \
	"hash, seq, sandbox"
#define TENANT                                                                     \
	"name, created_at, max_sandboxes, max_execs, max_memory, max_cpu_millis, " \
	"max_disk, sandboxes, execs, memory, cpu_millis, disk"
#define EXEC                                                                         \
	"id, sandbox, number, argv, cwd, user, pty, session, started_at, "           \
	"timeout_ms, journal, ended_at, exit_code, signal, timed_out, oom, "         \
	"wall_usec, user_usec, system_usec, max_memory, read_bytes, written_bytes, " \
	"lost, ends_until"
#define EVENT                                                                    \
	"id, at, clock, type, owner, sandbox, object, image, state, reason, "    \
	"exit_code, signal, timed_out, oom, wall_usec, user_usec, system_usec, " \
	"max_memory, read_bytes, written_bytes"
#define SESSION "id, sandbox, exec, shell, created_at, last_used, serial, name, undoable"

#define VOLUME                                                              \
	"v.id, v.tenant, v.name, v.size, v.labels, v.created_at, v.state, " \
	"(SELECT count(*) FROM volume_uses WHERE volume = v.id)"

#define SNAPSHOT                                                              \
	"s.id, s.tenant, s.source, s.image, s.size, s.labels, s.created_at, " \
	"(SELECT group_concat(name, ',') FROM snapshot_names WHERE "          \
	"snapshot = s.id), (SELECT count(*) FROM snapshot_uses WHERE "        \
	"snapshot = s.id), s.transient"

/* A template with its newest build. */
#define TEMPLATE                                                             \
	"t.id, t.tenant, t.name, t.created_at, t.updated_at, b.id, b.spec, " \
	"b.state, (SELECT count(*) FROM template_builds WHERE template = t.id)"
#define TEMPLATE_FROM                                                                \
	" FROM templates t LEFT JOIN template_builds b ON b.seq = (SELECT max(seq) " \
	"FROM template_builds WHERE template = t.id) "

#define TEMPLATE_BUILD                                                          \
	"id, template, state, snapshot, spec, reason, step, logs, created_at, " \
	"ended_at"

const char sandbox_columns[] = SANDBOX;

const char *const statement_texts[STMT_MAX] = {
	[STMT_BEGIN] = "BEGIN IMMEDIATE",
	[STMT_COMMIT] = "COMMIT",
	[STMT_ROLLBACK] = "ROLLBACK",

	[STMT_GET_META] = "SELECT value FROM meta WHERE key = ?",
	[STMT_SET_META] = "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)",

	[STMT_PUT_TENANT] =
		"INSERT INTO tenants (name, created_at, max_sandboxes, max_execs, "
		"max_memory, max_cpu_millis, max_disk) VALUES (?, ?, ?, ?, ?, ?, ?) "
		"ON CONFLICT (name) DO UPDATE SET max_sandboxes = excluded.max_sandboxes, "
		"max_execs = excluded.max_execs, max_memory = excluded.max_memory, "
		"max_cpu_millis = excluded.max_cpu_millis, max_disk = excluded.max_disk",
	[STMT_SET_QUOTAS] = "UPDATE tenants SET max_sandboxes = ?, max_execs = ?, "
			    "max_memory = ?, max_cpu_millis = ?, max_disk = ?",
	[STMT_GET_TENANT] = "SELECT " TENANT " FROM tenants WHERE name = ?",
	[STMT_EACH_TENANT] = "SELECT " TENANT " FROM tenants ORDER BY name",
	[STMT_DELETE_TENANT] = "DELETE FROM tenants WHERE name = ?",
	[STMT_CHARGE] = "UPDATE tenants SET sandboxes = ?, execs = ?, memory = ?, "
			"cpu_millis = ?, disk = ? WHERE name = ?",
	[STMT_SUM_SANDBOXES] =
		"SELECT state, count(*), sum(memory), sum(cpu_millis), sum(disk) FROM "
		"sandboxes WHERE owner = ? GROUP BY state",
	[STMT_SUM_EXECS] =
		"SELECT count(*) FROM execs e JOIN sandboxes s ON s.id = e.sandbox "
		"WHERE s.owner = ? AND e.ended_at IS NULL",

	[STMT_INSERT_TOKEN] =
		"INSERT INTO tokens (id, hash, tenant, name, scopes, created_at, "
		"expires_at, sandbox) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
	[STMT_FIND_TOKEN] = "SELECT " TOKEN " FROM tokens WHERE hash = ?",
	[STMT_GET_TOKEN] = "SELECT " TOKEN " FROM tokens WHERE id = ?",
	[STMT_TOUCH_TOKEN] = "UPDATE tokens SET last_used = ? WHERE id = ?",
	[STMT_EACH_TOKEN] =
		"SELECT " TOKEN " FROM tokens WHERE seq > ?1 AND (?3 IS NULL OR "
		"tenant = ?3) ORDER BY seq LIMIT ?2",
	[STMT_REVOKE_TOKEN] =
		"UPDATE tokens SET revoked_at = iif(revoked_at = 0, ?1, revoked_at) "
		"WHERE id = ?2 AND (?3 IS NULL OR tenant = ?3)",
	[STMT_CHECK_TOKEN] = "SELECT revoked_at FROM tokens WHERE id = ?",
	[STMT_PRUNE_REVOKED] =
		"DELETE FROM tokens WHERE seq IN (SELECT seq FROM tokens WHERE "
		"revoked_at <> 0 AND revoked_at < ? ORDER BY revoked_at LIMIT ?)",
	[STMT_PRUNE_EXPIRED] =
		"DELETE FROM tokens WHERE seq IN (SELECT seq FROM tokens WHERE "
		"expires_at <> 0 AND expires_at < ? ORDER BY expires_at LIMIT ?)",
	[STMT_COUNT_TOKENS] = "SELECT count(*) FROM tokens WHERE revoked_at = 0 AND "
			      "(expires_at = 0 OR expires_at > ?)",

	[STMT_PUT_SECRET] =
		"INSERT INTO secrets (tenant, name, sealed, created_at, updated_at) "
		"VALUES (?1, ?2, ?3, ?4, ?4) ON CONFLICT (tenant, name) DO UPDATE SET "
		"sealed = excluded.sealed, updated_at = excluded.updated_at",
	[STMT_GET_SECRET] = "SELECT tenant, name, created_at, updated_at, sealed FROM "
			    "secrets WHERE tenant = ? AND name = ?",
	[STMT_EACH_SECRET] =
		"SELECT tenant, name, created_at, updated_at, NULL FROM secrets "
		"WHERE tenant = ? AND name > ? ORDER BY name LIMIT ?",
	[STMT_DELETE_SECRET] = "DELETE FROM secrets WHERE tenant = ? AND name = ?",
	[STMT_COUNT_SECRETS] =
		"SELECT count(*) FROM secrets WHERE ?1 IS NULL OR tenant = ?1",

	[STMT_INSERT_VOLUME] = "INSERT INTO volumes (id, tenant, name, size, labels, "
			       "created_at) VALUES (?, ?, ?, ?, ?, ?)",
	[STMT_GET_VOLUME] =
		"SELECT " VOLUME " FROM volumes v WHERE tenant = ? AND name = ?",
	[STMT_GET_VOLUME_BY_ID] =
		"SELECT " VOLUME " FROM volumes v WHERE tenant = ? AND id = ?",
	[STMT_EACH_VOLUME] = "SELECT " VOLUME " FROM volumes v WHERE tenant = ? AND "
			     "name > ? AND state = 1 ORDER BY name LIMIT ?",
	[STMT_FINISH_VOLUME] = "UPDATE volumes SET state = 1 WHERE id = ? AND state = 0",
	[STMT_DELETE_VOLUME] = "UPDATE volumes SET state = 2 WHERE id = ? AND NOT EXISTS "
			       "(SELECT 1 FROM volume_uses WHERE volume = id)",
	[STMT_FORGET_VOLUME] = "DELETE FROM volumes WHERE id = ? AND state <> 1",
	[STMT_UNFINISHED_VOLUMES] =
		"SELECT id FROM volumes WHERE state <> 1 AND id > ? ORDER BY id LIMIT ?",
	[STMT_SUM_VOLUMES] = "SELECT count(*), coalesce(sum(size), 0) FROM volumes "
			     "WHERE ?1 IS NULL OR tenant = ?1",
	[STMT_USE_VOLUME] = "INSERT OR REPLACE INTO volume_uses (volume, sandbox) "
			    "SELECT id, ?2 FROM volumes WHERE id = ?1 AND state = 1",
	[STMT_EACH_VOLUME_USER] =
		"SELECT sandbox FROM volume_uses WHERE volume = ? ORDER BY sandbox LIMIT ?",

	[STMT_INSERT_SNAPSHOT] =
		"INSERT INTO snapshots (id, tenant, source, transient, labels, created_at) "
		"VALUES (?, ?, ?, ?, ?, ?)",
	[STMT_FINISH_SNAPSHOT] = "UPDATE snapshots SET state = 1, image = ?, size = ? "
				 "WHERE id = ? AND state = 0",
	[STMT_ORPHAN_SNAPSHOT] =
		"UPDATE snapshots SET transient = 1 WHERE id = (SELECT snapshot FROM "
		"snapshot_names WHERE tenant = ?1 AND name = ?2) AND id <> ?3 AND "
		"(SELECT count(*) FROM snapshot_names WHERE snapshot = snapshots.id) = 1 "
		"AND NOT EXISTS "
		"(SELECT 1 FROM template_builds b JOIN template_tags t ON t.build = b.id "
		"WHERE b.snapshot = snapshots.id)",
	[STMT_NAME_SNAPSHOT] = "INSERT OR REPLACE INTO snapshot_names (tenant, name, "
			       "snapshot) VALUES (?, ?, ?)",
	[STMT_KEEP_SNAPSHOT] = "UPDATE snapshots SET transient = 0 WHERE id = ?",
	[STMT_UNNAME_SNAPSHOT] =
		"DELETE FROM snapshot_names WHERE tenant = ? AND name = ?",
	[STMT_UNNAME_ALL] = "DELETE FROM snapshot_names WHERE snapshot = ?",
	[STMT_DROP_SNAPSHOT] =
		"UPDATE snapshots SET transient = 1 WHERE id = ?1 AND NOT EXISTS "
		"(SELECT 1 FROM snapshot_names WHERE snapshot = ?1) "
		"AND NOT EXISTS "
		"(SELECT 1 FROM template_builds b JOIN template_tags t ON t.build = b.id "
		"WHERE b.snapshot = snapshots.id)",
	[STMT_DELETE_SNAPSHOT] =
		"UPDATE snapshots SET state = 2 WHERE id = ? AND NOT EXISTS "
		"(SELECT 1 FROM snapshot_uses WHERE snapshot = snapshots.id) "
		"AND NOT EXISTS "
		"(SELECT 1 FROM template_builds b JOIN template_tags t ON t.build = b.id "
		"WHERE b.snapshot = snapshots.id)",
	[STMT_COUNT_SNAPSHOT_TAGS] =
		"SELECT count(*) FROM template_builds b JOIN template_tags t ON t.build = "
		"b.id WHERE b.snapshot = ? AND b.snapshot <> ''",
	[STMT_FORGET_SNAPSHOT] = "DELETE FROM snapshots WHERE id = ? AND state <> 1",
	[STMT_DEAD_SNAPSHOTS] =
		"SELECT id FROM snapshots s WHERE state <> 1 OR (transient = 1 AND NOT "
		"EXISTS (SELECT 1 FROM snapshot_uses WHERE snapshot = s.id)) "
		"ORDER BY random() LIMIT ?",
	[STMT_GET_SNAPSHOT] =
		"SELECT " SNAPSHOT
		" FROM snapshots s WHERE (?1 IS NULL OR tenant = ?1) AND state = 1 AND "
		"id = coalesce((SELECT id FROM snapshots WHERE id = ?2 AND state = 1 AND "
		"(?1 IS NULL OR tenant = ?1)), (SELECT snapshot FROM snapshot_names WHERE "
		"tenant = ?1 AND name = ?2))",
	/* The snapshot of a build is listed as a template. */
	[STMT_EACH_SNAPSHOT] =
		"SELECT " SNAPSHOT " FROM snapshots s WHERE tenant = ? "
		"AND id > ? AND state = 1 AND NOT EXISTS (SELECT 1 FROM "
		"template_builds WHERE snapshot = s.id AND snapshot <> '') "
		"ORDER BY id LIMIT ?",
	[STMT_SUM_SNAPSHOTS] = "SELECT count(CASE WHEN state <> 2 THEN 1 END), "
			       "coalesce(sum(size), 0) FROM snapshots WHERE ?1 IS NULL "
			       "OR tenant = ?1",
	[STMT_USE_SNAPSHOT] = "INSERT OR REPLACE INTO snapshot_uses (snapshot, sandbox) "
			      "SELECT id, ?2 FROM snapshots WHERE id = ?1 AND state = 1",

	[STMT_SNAPSHOT_OF_IMAGE] = "SELECT id FROM snapshots WHERE image = ?",
	[STMT_SNAPSHOT_OF] = "SELECT snapshot FROM snapshot_uses WHERE sandbox = ?",

	[STMT_INSERT_TEMPLATE] = "INSERT INTO templates (id, tenant, name, created_at, "
				 "updated_at) VALUES (?1, ?2, ?3, ?4, ?4)",
	[STMT_COUNT_TEMPLATES] = "SELECT count(*) FROM templates WHERE tenant = ?",
	[STMT_GET_TEMPLATE] = "SELECT " TEMPLATE TEMPLATE_FROM
			      "WHERE t.tenant = ?1 AND (t.id = ?2 OR t.name = ?2) "
			      "ORDER BY t.id = ?2 DESC LIMIT 1",
	[STMT_EACH_TEMPLATE] = "SELECT " TEMPLATE TEMPLATE_FROM
			       "WHERE t.tenant = ? AND t.id > ? ORDER BY t.id LIMIT ?",
	[STMT_DELETE_TEMPLATE] = "DELETE FROM templates WHERE id = ?",
	[STMT_INSERT_BUILD] = "INSERT INTO template_builds (id, template, state, spec, "
			      "created_at) VALUES (?, ?, ?, ?, ?)",
	/* Builds without a tag are kept for their logs, and only the last of them. */
	[STMT_PRUNE_BUILDS] =
		"DELETE FROM template_builds WHERE template = ?1 AND state <> 1 AND "
		"NOT EXISTS (SELECT 1 FROM template_tags WHERE build = "
		"template_builds.id) AND seq NOT IN (SELECT seq FROM template_builds "
		"WHERE template = ?1 ORDER BY seq DESC LIMIT ?2)",
	/* The last ?2 builds that have ended keep their logs, of all templates of the
	 * tenant. */
	[STMT_DROP_BUILD_LOGS] =
		"UPDATE template_builds SET logs = '' WHERE state >= 2 AND seq IN (SELECT "
		"b.seq FROM template_builds b JOIN templates t ON t.id = b.template WHERE "
		"t.tenant = (SELECT tenant FROM templates WHERE id = ?1) AND b.state >= 2 "
		"ORDER BY b.seq DESC LIMIT -1 OFFSET ?2) AND logs <> ''",
	[STMT_GET_BUILD] = "SELECT " TEMPLATE_BUILD
			   " FROM template_builds WHERE template = ? AND id = ?",
	[STMT_TAGGED_BUILD] =
		"SELECT " TEMPLATE_BUILD " FROM template_builds WHERE id = (SELECT build "
		"FROM template_tags WHERE template = ? AND tag = ?)",
	[STMT_SNAPSHOT_BUILD] =
		"SELECT " TEMPLATE_BUILD
		" FROM template_builds WHERE template = ? AND snapshot = ?",
	[STMT_SET_BUILD] =
		"UPDATE template_builds SET state = ?2, snapshot = ?3, spec = ?4, reason = "
		"?5, step = ?6, logs = ?7, ended_at = ?8 WHERE id = ?1 AND state < 2",
	[STMT_END_BUILDS] = "UPDATE template_builds SET state = 3, reason = ?, step = "
			    "'base', ended_at = ? WHERE state = 1",
	[STMT_TOUCH_TEMPLATE] = "UPDATE templates SET updated_at = ?2 WHERE id = ?1",
	[STMT_PUT_TEMPLATE_TAG] = "INSERT OR REPLACE INTO template_tags (template, tag, "
				  "build, created_at) VALUES (?, ?, ?, ?)",
	[STMT_DELETE_TEMPLATE_TAG] =
		"DELETE FROM template_tags WHERE template = ? AND tag = ?",
	[STMT_EACH_TEMPLATE_TAG] = "SELECT tag, build, created_at FROM template_tags "
				   "WHERE template = ? ORDER BY tag",
	/* Files without a tag are deleted when no sandbox uses them; ?2: all files. */
	[STMT_ORPHAN_BUILDS] =
		"UPDATE snapshots SET transient = 1 WHERE id IN (SELECT snapshot FROM "
		"template_builds b WHERE template = ?1 AND snapshot <> '' AND (?2 OR NOT "
		"EXISTS (SELECT 1 FROM template_tags WHERE build = b.id))) AND NOT EXISTS "
		"(SELECT 1 FROM snapshot_names WHERE snapshot = snapshots.id)",

	[STMT_INSERT_SANDBOX] =
		"INSERT INTO sandboxes (seq, id, state, owner, backend, image, network, name, "
		"template, spec, enforced, error, memory, cpu_millis, disk, created_at, "
		"changed_at, expires_at, idle_timeout_ms, last_used, labels, tier, "
		"request_key, request_hash, command, on_exit) VALUES (?, ?, ?, ?, ?, ?, ?, ?, "
		"?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[STMT_GET_SANDBOX] = "SELECT " SANDBOX " FROM sandboxes s WHERE id = ?1 AND "
			     "(?2 IS NULL OR owner = ?2)",
	[STMT_FIND_NAME] =
		"SELECT id FROM sandboxes WHERE name = ?1 AND owner = ?2 LIMIT 2",
	[STMT_FIND_PREFIX] = "SELECT id FROM sandboxes WHERE id >= ?1 AND id < ?2 AND "
			     "(?3 IS NULL OR owner = ?3) LIMIT 2",
	[STMT_SET_MAIN] = "UPDATE sandboxes SET main_exec = ? WHERE id = ?",
	[STMT_SET_NAME] = "UPDATE sandboxes SET name = ? WHERE id = ?",
	[STMT_CHARGED_SANDBOX] =
		"SELECT seq, owner, state, memory, cpu_millis, disk FROM sandboxes "
		"WHERE id = ?",
	[STMT_EACH_SANDBOX] = "SELECT " SANDBOX " FROM sandboxes s ORDER BY seq",
	[STMT_HASH_OF_REQUEST] = "SELECT hash FROM requests WHERE owner = ? AND key = ?",
	[STMT_INSERT_REQUEST] = "INSERT OR REPLACE INTO requests (owner, key, hash, at) "
				"VALUES (?, ?, ?, ?)",
	[STMT_RELEASE_REQUEST] =
		"DELETE FROM requests WHERE owner = ?1 AND key = (SELECT request_key FROM "
		"sandboxes WHERE id = ?2) AND NOT EXISTS (SELECT 1 FROM sandboxes s WHERE "
		"s.owner = ?1 AND s.request_key = requests.key AND s.id <> ?2)",
	[STMT_PRUNE_REQUESTS] =
		"DELETE FROM requests WHERE seq IN (SELECT seq FROM requests WHERE at < ? "
		"ORDER BY at LIMIT ?)",
	[STMT_NEXT_REQUESTER] = "SELECT min(owner) FROM requests WHERE owner > ?",
	[STMT_LIMIT_REQUESTS] =
		"DELETE FROM requests WHERE seq IN (SELECT seq FROM requests WHERE "
		"owner = ?1 AND seq <= (SELECT seq FROM requests WHERE owner = ?1 "
		"ORDER BY seq DESC LIMIT 1 OFFSET ?2) ORDER BY seq LIMIT ?3)",
	[STMT_HASH_OF_SANDBOX] =
		"SELECT request_hash FROM sandboxes WHERE owner = ? AND request_key = ? "
		"LIMIT 1",
	[STMT_EACH_OF_REQUEST] =
		"SELECT " SANDBOX " FROM sandboxes s WHERE owner = ? AND request_key = ? "
		"ORDER BY seq",
	[STMT_MOVE_SANDBOX] =
		"UPDATE sandboxes SET state = ?, changed_at = ?, error = ?, "
		"enforced = coalesce(?, enforced) WHERE id = ?",
	[STMT_SET_LABELS] = "UPDATE sandboxes SET labels = ? WHERE id = ?",
	[STMT_SET_TIMES] =
		"UPDATE sandboxes SET expires_at = ?, idle_timeout_ms = ? WHERE id = ?",
	[STMT_SET_LIMITS] = "UPDATE sandboxes SET memory = ?, cpu_millis = ?, disk = ?, "
			    "spec = coalesce(?, spec), enforced = coalesce(?, enforced), "
			    "network = coalesce(?, network) WHERE id = ?",
	[STMT_GET_NETWORK] = "SELECT connections, denied, bytes_in, bytes_out "
			     "FROM networks WHERE sandbox = ?",
	[STMT_SET_NETWORK] = "UPDATE networks SET connections = ?, denied = ?, "
			     "bytes_in = ?, bytes_out = ? WHERE sandbox = ?",
	[STMT_GET_POLICY] = "SELECT policy FROM networks WHERE sandbox = ?",
	[STMT_SET_POLICY] =
		"INSERT INTO networks (sandbox, policy) VALUES (?, ?) "
		"ON CONFLICT (sandbox) DO UPDATE SET policy = excluded.policy",
	[STMT_TOUCH_SANDBOX] = "UPDATE sandboxes SET last_used = ? WHERE id = ?",
	[STMT_DELETE_SANDBOX] = "DELETE FROM sandboxes WHERE id = ?",
	[STMT_COUNT_SANDBOXES] = "SELECT state, count(*) FROM sandboxes GROUP BY state",
	[STMT_INSERT_LABEL] =
		"INSERT INTO labels (owner, key, value, seq) VALUES (?, ?, ?, ?)",
	[STMT_DELETE_LABEL] =
		"DELETE FROM labels WHERE owner = ? AND key = ? AND value = ? "
		"AND seq = ?",
	[STMT_LOST_LABELS] =
		"SELECT count(*) FROM labels l LEFT JOIN sandboxes s ON s.seq = l.seq "
		"WHERE s.owner IS NOT l.owner",
	[STMT_LAST_SANDBOX] = "SELECT max(seq) FROM sandboxes",

	[STMT_INSERT_EXEC] =
		"INSERT INTO execs (id, sandbox, number, argv, cwd, user, pty, session, "
		"started_at, timeout_ms, journal) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[STMT_FINISH_EXEC] =
		"UPDATE execs SET ended_at = ?, exit_code = ?, signal = ?, timed_out = ?, "
		"oom = ?, wall_usec = ?, user_usec = ?, system_usec = ?, max_memory = ?, "
		"read_bytes = ?, written_bytes = ? WHERE id = ? AND ended_at IS NULL",
	[STMT_MARK_EXEC] = "UPDATE execs SET lost = ? WHERE id = ?",
	[STMT_EXEC_ENDS_UNTIL] = "UPDATE execs SET ends_until = ? WHERE id = ?",
	[STMT_GET_EXEC] = "SELECT " EXEC " FROM execs WHERE id = ?1 AND "
			  "(?2 IS NULL OR sandbox = ?2)",
	[STMT_EACH_EXEC] = "SELECT " EXEC " FROM execs WHERE sandbox = ? AND number > ? "
			   "ORDER BY number LIMIT ?",
	[STMT_EACH_RUNNING] = "SELECT " EXEC " FROM execs INDEXED BY execs_running "
			      "WHERE ended_at IS NULL ORDER BY sandbox, number",
	[STMT_CLOSED_SHELLS] =
		"SELECT " EXEC " FROM execs WHERE sandbox = ?1 AND session <> 0 AND "
		"id NOT IN (SELECT exec FROM sessions WHERE sandbox = ?1)",
	[STMT_UNTOLD_EXECS] = "SELECT " EXEC " FROM execs INDEXED BY execs_running "
			      "WHERE sandbox = ? AND ended_at IS NULL AND lost = 0",
	[STMT_LOSE_EXECS] = "UPDATE execs SET lost = 1 WHERE sandbox = ? AND "
			    "ended_at IS NULL",
	[STMT_COUNT_RUNNING] =
		"SELECT count(*) FROM execs WHERE sandbox = ? AND ended_at IS NULL",
	[STMT_LAST_EXEC] = "SELECT max(number) FROM execs WHERE sandbox = ?",
	[STMT_DELETE_EXEC] = "DELETE FROM execs WHERE id = ?",

	[STMT_INSERT_SESSION] =
		"INSERT INTO sessions (id, sandbox, exec, shell, created_at, last_used, "
		"serial, name, undoable) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[STMT_ADVANCE_SESSION] = "UPDATE sessions SET serial = ?1, last_used = ?2 "
				 "WHERE id = ?3 AND serial < ?1",
	[STMT_RENEW_SESSION] = "UPDATE sessions SET exec = ?2, shell = ?3, serial = 0, "
			       "last_used = ?4 WHERE id = ?1",
	[STMT_GET_SESSION] = "SELECT " SESSION " FROM sessions WHERE id = ?1 AND "
			     "(?2 IS NULL OR sandbox = ?2)",
	[STMT_EACH_SESSION] = "SELECT " SESSION " FROM sessions ORDER BY seq",
	[STMT_SESSIONS_OF] =
		"SELECT " SESSION " FROM sessions WHERE sandbox = ? ORDER BY seq",
	[STMT_SESSION_OF_EXEC] = "SELECT 1 FROM sessions WHERE exec = ?",
	[STMT_INSERT_EVENT] =
		"INSERT INTO events (" EVENT ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
		"?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[STMT_EACH_EVENT] =
		"SELECT " EVENT " FROM events WHERE id > ? ORDER BY id LIMIT ?",
	[STMT_EVENT_RANGE] = "SELECT min(id), max(id) FROM events",
	[STMT_PRUNE_EVENTS] =
		"DELETE FROM events WHERE id <= (SELECT max(id) FROM (SELECT id, clock FROM "
		"events ORDER BY id LIMIT ?1) WHERE clock < ?2 OR id <= ?3) "
		"AND id < (SELECT max(id) FROM events)",
	[STMT_DELETE_SESSION] = "DELETE FROM sessions WHERE id = ?",

	[STMT_PUT_CONTEXT] =
		"INSERT INTO contexts (id, sandbox, language, cwd, is_default, exec, "
		"state) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
		"is_default = excluded.is_default, exec = excluded.exec, "
		"state = excluded.state",
	[STMT_EACH_CONTEXT] = "SELECT id, sandbox, exec, language, cwd, is_default, "
			      "state FROM contexts ORDER BY id",
	[STMT_DELETE_CONTEXT] = "DELETE FROM contexts WHERE id = ?",
};
