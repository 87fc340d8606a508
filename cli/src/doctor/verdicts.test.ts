import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Overview } from '@millrace/server';
import { afterAll, describe, expect, it } from 'vitest';
import { paintFor } from '../paint.ts';
import { dataFolder, type FolderFacts, lookAtFolder } from './data-folder.ts';
import { diskSpace, lookAtSpace, type SpaceFacts } from './disk-space.ts';
import { type EndpointFacts, endpoint } from './endpoint.ts';
import type { Finding } from './finding.ts';
import { nodeVersion } from './node-version.ts';
import { lookAtOpenFiles, openFiles } from './open-files.ts';
import { doctorReport } from './report.ts';
import { secrets } from './secrets.ts';
import { type ServerFacts, server, storedEvents } from './server.ts';
import { measureSyncs, syncTime } from './sync-time.ts';

const place = mkdtempSync(join(tmpdir(), 'millrace-doctor-'));
afterAll(() => rmSync(place, { recursive: true }));

/** A finding in the form `warn: what was found → what to do`. */
function said({ verdict, found, advice }: Finding): string {
  return `${verdict}: ${found}${advice === undefined ? '' : ` → ${advice}`}`;
}

describe('the doctor', () => {
  it('wants Node 24.15', () => {
    expect(said(nodeVersion('v24.15.0'))).toBe('ok: v24.15.0');
    expect(said(nodeVersion('v24.9.0'))).toBe('fail: v24.9.0 → install Node 24.15 or newer');
    expect(said(nodeVersion('v26.1.0'))).toMatch(/^ok/);
    expect(said(nodeVersion('v22.9.0'))).toBe('fail: v22.9.0 → install Node 24.15 or newer');
  });

  it('says that secrets are not encrypted, with which key they are, and why a start could not read them', () => {
    expect(said(secrets({ key: '0123456789abcdef' }))).toBe('ok: encrypted with the key 0123456789abcdef');
    expect(said(secrets({}))).toMatch(
      /^warn: secrets\.key is not set: .* → make a key with openssl rand -base64 32/,
    );
    const problem = 'secrets are encrypted with the key 00, and secrets.key is not set';
    expect(said(secrets({ problem }))).toMatch(/^fail: secrets are encrypted .* → a start with these keys/);
  });

  it('wants a data folder that the user owns, can write, and has to himself', () => {
    const good: FolderFacts = {
      ...{ path: '/d', kind: 'folder', isWritable: true, isStoreGone: false, isBeingFilled: false },
      ...{ owner: 7, user: 7, mode: 0o700 },
    };
    expect(said(dataFolder(good))).toBe('ok: /d');
    expect(said(dataFolder({ ...good, kind: 'file' }))).toMatch(/^fail: \/d is a file → name a folder/);
    expect(said(dataFolder({ ...good, isWritable: false, owner: 0 }))).toMatch(
      /^fail: \/d cannot be written \(it belongs to user 0, you are 7\) → .*chown/,
    );
    expect(said(dataFolder({ ...good, owner: 0 }))).toMatch(/^warn: \/d belongs to user 0, you are 7 → run/);
    expect(said(dataFolder({ ...good, mode: 0o755 }))).toMatch(/^warn: .*mode 755.* → chmod 700 \/d$/);
    expect(said(dataFolder({ ...good, isStoreGone: true }))).toMatch(
      /^fail: \/d has lost its store.* → bring/,
    );
    const moved = { to: 'postgres://db:5432/millrace', at: '2026-03-04T05:06:07Z' };
    expect(said(dataFolder({ ...good, moved }))).toMatch(
      /^fail: \/d was moved to postgres:.* at 2026.* → name that under "database"/,
    );
    expect(said(dataFolder({ ...good, isBeingFilled: true }))).toMatch(
      /^fail: .*moving out of a database → go on with the database/,
    );
    const missing: FolderFacts = {
      ...{ path: '/d/e', kind: 'missing', isWritable: true, isStoreGone: false, isBeingFilled: false },
      ...{ parent: '/d', mode: 0 },
    };
    expect(said(dataFolder(missing))).toMatch(/^warn: \/d\/e does not exist → the first start makes it/);
    expect(said(dataFolder({ ...missing, isWritable: false }))).toMatch(
      /^fail: \/d\/e does not exist, and \/d cannot be written →/,
    );
    writeFileSync(join(place, 'file'), '');
    expect(lookAtFolder(join(place, 'file')).kind).toBe('file');
    expect(lookAtFolder(join(place, 'a', 'b'))).toMatchObject({ kind: 'missing', parent: place });
    expect(lookAtFolder(place)).toMatchObject({
      kind: 'folder',
      isWritable: true,
      isStoreGone: false,
      path: place,
    });
    mkdirSync(join(place, 'moved'));
    writeFileSync(join(place, 'moved', 'moved.json'), JSON.stringify(moved));
    writeFileSync(join(place, 'moved', 'migration.unfinished'), '');
    expect(lookAtFolder(join(place, 'moved'))).toMatchObject({ moved, isBeingFilled: true });
    // A node of a database keeps little more than a token there.
    expect(lookAtFolder(join(place, 'moved'), false)).not.toHaveProperty('moved');
    rmSync(join(place, 'moved'), { recursive: true });
    mkdirSync(join(place, 'gone'));
    writeFileSync(join(place, 'gone', 'high-water-mark'), '');
    expect(lookAtFolder(join(place, 'gone')).isStoreGone).toBe(true);
    rmSync(join(place, 'gone'), { recursive: true });
  });

  it('measures how long a small write takes, and leaves nothing behind', () => {
    expect(said(syncTime([1, 2, 30, 3, 2]))).toBe('ok: 2 ms for a small write, the slowest of 5 30 ms');
    expect(said(syncTime([50, 50, 50]))).toMatch(/^warn: 50 ms .* → calls are answered only after it/);
    expect(said(syncTime([500, 500, 500]))).toMatch(/^warn: 500 ms .* → far too slow/);
    expect(said(syncTime({ error: 'ENOSPC' }))).toMatch(
      /^fail: nothing can be written \(ENOSPC\) → free some space/,
    );
    expect(said(syncTime({ error: 'EROFS' }))).toMatch(/^fail: .*\(EROFS\) → make the disk writable/);
    expect(measureSyncs(place)).toHaveLength(20);
    expect(measureSyncs(join(place, 'nowhere'))).toEqual({ error: 'ENOENT' });
    expect(lookAtSpace(place, undefined).used).toBe(0);
  });

  it('wants room on the disk, and for what limits.disk promises', () => {
    const GB = 2 ** 30;
    const good: SpaceFacts = { free: 50 * GB, total: 100 * GB, used: GB, isInMemory: false };
    expect(said(diskSpace(good))).toBe('ok: 50 GB free of 100 GB, the data folder takes 1 GB');
    expect(said(diskSpace({ ...good, limit: 40 * GB }))).toMatch(/^ok: .*, at most 40 GB$/);
    expect(said(diskSpace({ ...good, limit: 60 * GB }))).toMatch(
      /^warn: .* → lower limits\.disk.* 60 GB is more/,
    );
    expect(said(diskSpace({ ...good, free: 4 * GB }))).toMatch(/^warn: .* → free some space, shorten/);
    expect(said(diskSpace({ ...good, free: 4 * GB, limit: 3 * GB }))).toMatch(/^ok/);
    expect(said(diskSpace({ ...good, free: 1000 }))).toMatch(
      /^fail: 1,?000 bytes free of .* → free some space now/,
    );
    expect(said(diskSpace({ ...good, isInMemory: true }))).toMatch(/^warn: .* → use a folder on a disk/);
    expect(lookAtSpace(join(place, 'not', 'yet'), 5)).toMatchObject({ used: 0, limit: 5 });
  });

  it('wants more open files than connections', () => {
    const facts = { limit: 20_000, of: 'this shell', connections: 10_000 } as const;
    expect(said(openFiles(facts))).toBe('ok: at most 20,000 for this shell');
    expect(said(openFiles({ ...facts, limit: Number.POSITIVE_INFINITY }))).toBe(
      'ok: no limit for this shell',
    );
    expect(said(openFiles({ ...facts, limit: 1024 }))).toMatch(
      /^warn: at most 1,024 .* → allow 11,000 .*is 10,000$/,
    );
    if (process.platform !== 'linux') return;
    expect(lookAtOpenFiles(undefined, 1)!.limit).toBeGreaterThan(0);
    expect(lookAtOpenFiles(process.pid, 1)!.of).toBe('the running server');
  });

  it('wants a way to every endpoint, and a certificate that lasts', () => {
    const now = Date.UTC(2026, 0, 1);
    const DAY = 86_400_000;
    const connected = { kind: 'connected', ms: 12 } as const;
    const facts: EndpointFacts = {
      ...{
        destination: 'crm',
        nth: 1,
        url: 'https://a.example/x',
        isEnabled: true,
        reached: connected,
        knowsRules: true,
      },
    };
    expect(endpoint(facts, now)).toEqual({
      ...{ check: 'endpoint 1 of crm', verdict: 'ok', found: 'https://a.example/x: connected in 12 ms' },
    });
    const until = (end: number) =>
      endpoint({ ...facts, reached: { ...connected, certificateEndsAt: end } }, now);
    expect(said(until(now + 60 * DAY))).toMatch(/^ok: .*, certificate valid for 60 d$/);
    expect(said(until(now + 13 * DAY))).toMatch(/^warn: .*valid for 13 d → ask the receiver to renew it/);
    const failed = {
      kind: 'failed',
      reason: 'certificate_untrusted',
      detail: 'certificate\nhas expired',
    } as const;
    expect(said(endpoint({ ...facts, reached: failed }, now))).toMatch(
      /^fail: https:\/\/a\.example\/x: certificate_untrusted: certificate has expired → let the receiver renew/,
    );
    expect(said(endpoint({ ...facts, reached: failed, isEnabled: false }, now))).toMatch(/^warn/);
    const refused = { kind: 'failed', reason: 'egress_refused', detail: 'refused as loopback' } as const;
    expect(said(endpoint({ ...facts, reached: refused }, now))).toMatch(/^fail: .* → if it is yours/);
    expect(said(endpoint({ ...facts, reached: refused, knowsRules: false }, now))).toMatch(
      /^warn: .* → give doctor/,
    );
    const other = { kind: 'failed', reason: 'protocol_error', detail: 'x' } as const;
    expect(said(endpoint({ ...facts, reached: other }, now))).toMatch(/ → see whether the URL is right/);
  });

  it('prints a line for each check, what to do below it, and a sum', () => {
    const findings: Finding[] = [
      { check: 'node', verdict: 'ok', found: 'v24' },
      { check: 'configuration', verdict: 'fail', found: 'line one\nline\u001b two', advice: 'mend it' },
      { check: 'x', verdict: 'warn', found: 'y' },
    ];
    const paint = paintFor({ isTTY: false }, {});
    expect(doctorReport(findings, paint)).toBe(`ok    node           v24
fail  configuration  line one
                     line· two
                     → mend it
warn  x              y

1 failure, 1 warning.
`);
    expect(doctorReport(findings.slice(0, 1), paint)).toMatch(/\n\nAll is well\.\n$/);
  });
});

describe('the doctor, of the server,', () => {
  const askedAt = Date.UTC(2026, 0, 1);
  const overview: Overview = {
    ...{ at: '2026-01-01T00:00:00.100Z', startedAt: '2025-12-31T00:00:00.000Z' },
    ...{ sources: {}, destinations: {}, lanes: {}, balanced: true, differences: [], discards: [] },
    callsOfNoSource: { refused: {}, discarded: {} },
    changedValues: {},
    rateLimitedRequests: {},
    publicCalls: {},
    log: { events: 0, bytes: 0 },
    ...{ version: '0.3.0', nodeVersion: '24.21.0', storeId: 'f00d', commits: { count: 0 } },
    regulations: { open: 0, isFailing: false, suppressed: 0 },
  };
  const good: ServerFacts = {
    ...{ url: 'http://s', ready: { status: 200, reasons: [] }, overview, askedAt },
    folder: { isInUse: true, pid: 5 },
  };
  const all = (facts: Partial<ServerFacts>) =>
    server({ ...good, ...facts }).map((finding) => `${finding.check}: ${said(finding)}`);
  const counts = {
    owed: 9,
    delivered: 0,
    pending: 9,
    dead: {},
    dropped: {},
    erased: 0,
    skipped: {},
    balance: 0,
  };

  it('says that all is well', () => {
    expect(all({})).toEqual([
      'server: ok: http://s takes calls',
      "clock: ok: the server's and this machine's agree",
      'ledger: ok: balanced',
      'stored events: ok: no damage was found',
    ]);
  });

  it('says how profiles and deletions do', () => {
    const profiles = { profiles: 9, bytes: 1, behind: 0, lagMs: 0, failed: [], skipped: 0 };
    const found = (more: Partial<Overview>) => all({ overview: { ...overview, ...more } }).slice(4);
    expect(found({ profiles: { ...profiles, state: 'live' } })).toEqual(['profiles: ok: up to date']);
    const late = { ...profiles, state: 'catching_up', behind: 9, lagMs: 600_000 } as const;
    expect(found({ profiles: late })[0]).toMatch(/^profiles: warn: 10 min behind \(9 events\) → calls and/);
    expect(found({ profiles: { ...late, failed: ['Buyers'] } })[0]).toMatch(
      /^profiles: fail: Buyers cannot be computed →/,
    );
    expect(found({ profiles: { ...late, skipped: 1 } })[0]).toMatch(/^profiles: warn: 1 event left out →/);
    expect(found({ profiles: { ...profiles, state: 'failed', reason: 'the disk is full' } })).toEqual([
      'profiles: fail: stand still: the disk is full',
    ]);
    const oldestAt = '2025-12-31T18:00:00.000Z';
    const damage = { events: 2, deliveries: 0, others: ['the record of regulation 7'] };
    expect(storedEvents(damage).found).toBe(
      '2 events and 0 deliveries cannot be read, the record of regulation 7',
    );
    const regulations = { open: 1, oldestAt, isFailing: false, suppressed: 0 };
    expect(found({ regulations })[0]).toMatch(/^deletions: warn: 1 under way, the oldest for 6 h →/);
    expect(found({ regulations: { ...regulations, isFailing: true } })[0]).toMatch(
      /^deletions: fail: a step fails →/,
    );
  });

  it('tells one that does not run from one that cannot be found', () => {
    const { ready, overview: nothing, ...absent } = { ...good, error: 'ECONNREFUSED' };
    const idle = server({ ...absent, folder: { isInUse: false } }).map(said);
    expect(idle).toEqual([
      expect.stringMatching(/^warn: server unreachable at http:\/\/s \(ECONNREFUSED\) → start it/),
    ]);
    expect(server(absent).map(said)).toEqual([
      expect.stringMatching(/^fail: .*, but process 5 works on the data folder → say where it listens/),
    ]);
    expect(all({ folder: { isInUse: false } })[1]).toMatch(
      /^server: warn: .*does not work on this data folder →/,
    );
  });

  it('says why it takes no calls, and why the control API says nothing', () => {
    expect(all({ ready: { status: 503, reasons: ['the disk is full'] } })[0]).toMatch(
      /^server: fail: http:\/\/s takes no calls: the disk is full → calls are turned away with 503/,
    );
    expect(all({ ready: { status: 500, reasons: [] } })[0]).toMatch(/takes no calls: \/readyz answers 500/);
    expect(all({ overview: 'the token was refused' })[1]).toBe('control API: fail: the token was refused');
  });

  it('compares clocks', () => {
    const clock = (at: string) => all({ overview: { ...overview, at } })[1];
    expect(clock('2026-01-01T00:01:00.000Z')).toMatch(
      /^clock: warn: the server's is 60 s ahead of this machine's → set/,
    );
    expect(clock('2025-12-31T23:50:00.000Z')).toMatch(
      /^clock: fail: the server's is 10 min behind this machine's →/,
    );
  });

  it('is loud about a ledger that does not balance, and names destinations that do not do well', () => {
    const lanes: Overview['lanes'] = {
      crm: {
        ...{
          endpoints: [],
          state: 'failing',
          held: 0,
          retrying: 0,
          onDisk: 9,
          failingSince: '2025-12-31T23:00:00.000Z',
        },
        lastError: { reason: 'status_401', endpoint: 'https://a.example/x', at: '2025-12-31T23:59:00.000Z' },
      },
      billing: { state: 'paused', held: 0, retrying: 0, onDisk: 9, endpoints: [] },
      old: { state: 'disabled', held: 0, retrying: 0, onDisk: 9, endpoints: [] },
      idle: { state: 'paused', held: 0, retrying: 0, onDisk: 0, endpoints: [] },
      mail: { state: 'healthy', held: 0, retrying: 0, onDisk: 0, endpoints: [] },
    };
    const destinations = {
      ...{ crm: counts, billing: counts, old: counts, idle: { ...counts, pending: 0 } },
      mail: { ...counts, pending: 0, dead: { status_410: 2, status_401: 1200 } },
    };
    const differences = [
      {
        destination: 'crm',
        difference: 1,
        owed: 1,
        delivered: 0,
        pending: 0,
        dead: 0,
        dropped: 0,
        erased: 0,
      },
    ];
    expect(
      all({ overview: { ...overview, balanced: false, differences, lanes, destinations } }).slice(2),
    ).toEqual([
      expect.stringMatching(/^ledger: fail: 1 sums do not come out → /),
      'stored events: ok: no damage was found',
      'destination crm: warn: fails for 60 min: status_401 at https://a.example/x; 9 wait → millrace status',
      'destination billing: warn: is paused, and 9 deliveries wait for it → millrace resume billing',
      'destination old: warn: is disabled, and 9 deliveries wait for it → millrace enable old',
      'destination mail: warn: 1,200 dead letters of the reason status_401 → mend the cause, then millrace redeliver mail --reason status_401',
    ]);
  });

  it('looks at the nodes that share a database', () => {
    const node = { roles: ['ingest', 'deliver', 'users', 'control'], version: '1', since: '', jobs: [] };
    const a = { ...node, name: 'a', leaseLeftMs: 9 };
    const verdict = (...nodes: NonNullable<Overview['nodes']>) =>
      server({ ...good, overview: { ...overview, nodes } })
        .filter(({ check }) => check === 'nodes')
        .map(said);
    expect(verdict(a, { ...a, name: 'b' })).toEqual(['ok: a, b']);
    expect(verdict(a, { ...a, name: 'b', leaseLeftMs: 0 })).toEqual([
      expect.stringMatching(/^warn: the lease of b is over → /),
    ]);
    const times = { lastSeenAt: '2025-12-31T23:48:00.000Z', takenOverAt: '2025-12-31T23:48:11.000Z' };
    const goneNodes = [{ name: 'c', roles: ['deliver'], version: '1', takenOverBy: 'a', ...times }];
    expect(
      server({ ...good, overview: { ...overview, nodes: [a], goneNodes } })
        .filter(({ check }) => check === 'nodes')
        .map(said),
    ).toEqual([
      expect.stringMatching(/^warn: c was last seen 12 min ago, and a took over → look at its machine/),
    ]);
    expect(verdict({ ...a, roles: ['ingest', 'control'] })).toEqual([
      expect.stringMatching(/^fail: no node has the role deliver, users \(a\) → /),
    ]);
    expect(verdict(a, { ...a, name: 'b', version: '2' })).toEqual([
      expect.stringMatching(/^warn: versions 1, 2 \(a, b\) → finish the upgrade/),
    ]);
  });

  it('looks at the database that they share', () => {
    const standby = { name: 's1', isSynchronous: true, behindBytes: 0, behindMs: 1 };
    const verdict = (database: NonNullable<Overview['database']>) =>
      server({ ...good, overview: { ...overview, database } })
        .filter(({ check }) => check === 'database')
        .map(said);
    expect(verdict({ version: '15.6', standbys: [standby], problems: [] })).toEqual([
      expect.stringMatching(/^ok: PostgreSQL 15.6, standby s1 \(synchronous, 0 .*behind\)$/),
    ]);
    const problem = { found: 'autovacuum is off', advice: 'set autovacuum = on' };
    const problems = [
      { ...problem, isSevere: true },
      { ...problem, isSevere: false },
    ];
    expect(verdict({ version: '15.6', standbys: [], problems })).toEqual([
      'fail: autovacuum is off → set autovacuum = on',
      'warn: autovacuum is off → set autovacuum = on',
    ]);
  });
});
