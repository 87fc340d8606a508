import type { Overview } from '@millrace/server';
import { count, counted, size, span } from '../column.ts';
import type { Finding } from './finding.ts';

export interface ServerFacts {
  readonly url: string;
  /** The answer of `/readyz`. Absent when no server answers; `error` then has the reason. */
  readonly ready?: { readonly status: number; readonly reasons: readonly string[] };
  readonly error?: string;
  /**
   * The answer of the control API, or a text with the reason why it has none. Absent when no server answers.
   */
  readonly overview?: Overview | string;
  /** Tells whether a process has the data folder open, and which. */
  readonly folder: { readonly isInUse: boolean; readonly pid?: number };
  /** Local time in the middle of the request. */
  readonly askedAt: number;
}

/**
 * Milliseconds of clock difference worth a warning. Receivers refuse signed requests that are five minutes
 * off.
 */
const MAX_CLOCK_SKEW = 5000;
const CLOCK_FAR_OFF = 5 * 60 * 1000;

/** Milliseconds: profiles that are further behind, and deletions that take longer, are worth a warning. */
const LATE = 5 * 60 * 1000;
const OLD_DELETION = 5 * 60 * 60 * 1000;

/** Findings about a server, running or not. */
export function server(facts: ServerFacts): Finding[] {
  const { url, ready, error, overview, folder, askedAt } = facts;
  const { isInUse, pid } = folder;
  if (ready === undefined) {
    const found = `server unreachable at ${url} (${error ?? 'no answer'})`;
    if (!isInUse)
      return [{ check: 'server', verdict: 'warn', found, advice: 'start it, or say where it is with --url' }];
    const advice = `say where it listens with --url; its log says more`;
    const whose = pid === undefined ? 'a process' : `process ${pid}`;
    return [
      { check: 'server', verdict: 'fail', found: `${found}, but ${whose} works on the data folder`, advice },
    ];
  }
  const findings: Finding[] = [];
  if (ready.status !== 200) {
    const why = ready.reasons.join('; ') || `/readyz answers ${ready.status}`;
    const advice = 'calls are turned away with 503 until it is mended; nothing that was accepted is lost';
    findings.push({ check: 'server', verdict: 'fail', found: `${url} takes no calls: ${why}`, advice });
  } else {
    findings.push({ check: 'server', verdict: 'ok', found: `${url} takes calls` });
  }
  if (!isInUse) {
    const advice =
      'name the data folder of that server with --data; a server on another machine is asked there';
    const found = `the server at ${url} does not work on this data folder`;
    findings.push({ check: 'server', verdict: 'warn', found, advice });
  }
  if (typeof overview === 'string' || overview === undefined) {
    findings.push({ check: 'control API', verdict: 'fail', found: overview ?? 'no answer' });
    return findings;
  }
  return [
    ...findings,
    clocks(overview, askedAt),
    ledger(overview),
    storedEvents(overview.log.damage),
    ...profiles(overview),
    ...regulations(overview, askedAt),
    ...nodes(overview, Date.parse(overview.at)),
    ...database(overview),
    ...destinations(overview, askedAt),
  ];
}

function clocks({ at }: Overview, askedAt: number): Finding {
  const off = Date.parse(at) - askedAt;
  if (Math.abs(off) < MAX_CLOCK_SKEW)
    return { check: 'clock', verdict: 'ok', found: "the server's and this machine's agree" };
  const found = `the server's is ${span(Math.abs(off))} ${off < 0 ? 'behind' : 'ahead of'} this machine's`;
  const verdict = Math.abs(off) < CLOCK_FAR_OFF ? 'warn' : 'fail';
  const advice = 'set both by NTP: times of events, retries and signatures depend on it';
  return { check: 'clock', verdict, found, advice };
}

/** The lines about profiles; none while the server keeps no profiles. */
function profiles({ profiles: at }: Overview): Finding[] {
  if (at === undefined) return [];
  const check = 'profiles';
  const { state, reason = 'its log says why', behind, lagMs, failed, skipped } = at;
  if (state === 'failed') return [{ check, verdict: 'fail', found: `stand still: ${reason}` }];
  if (failed.length > 0) {
    const advice = 'millrace audience list and trait list say why; all others go on';
    return [{ check, verdict: 'fail', found: `${failed.join(', ')} cannot be computed`, advice }];
  }
  if (skipped > 0) {
    const advice = 'report it with the log lines profiles.event_skipped';
    return [{ check, verdict: 'warn', found: `${counted(skipped, 'event')} left out`, advice }];
  }
  if (lagMs < LATE) return [{ check, verdict: 'ok', found: 'up to date' }];
  const advice = 'calls and deliveries go first; if they never catch up, the machine is too small';
  return [{ check, verdict: 'warn', found: `${span(lagMs)} behind (${counted(behind, 'event')})`, advice }];
}

function regulations({ regulations: at }: Overview, now: number): Finding[] {
  const { open, oldestAt, isFailing } = at;
  const check = 'deletions';
  if (isFailing) {
    const advice = 'regulation.step_failed in the log says why; it is repeated by itself';
    return [{ check, verdict: 'fail', found: 'a step fails', advice }];
  }
  if (oldestAt === undefined || now - Date.parse(oldestAt) < OLD_DELETION) return [];
  const found = `${count(open)} under way, the oldest for ${span(now - Date.parse(oldestAt))}`;
  const advice = 'its receipt says which destination has not accepted its notifications';
  return [{ check, verdict: 'warn', found, advice }];
}

/** The nodes that share the database; nothing with the embedded engine. */
function nodes({ nodes: all, goneNodes: gone = [] }: Overview, now: number): Finding[] {
  if (all === undefined) return [];
  const check = 'nodes';
  const names = all.map(({ name }) => name).join(', ');
  const over = all.filter(({ leaseLeftMs }) => leaseLeftMs <= 0);
  const missing = ['ingest', 'deliver', 'users', 'control'].filter((role) =>
    all.every(({ roles }) => !roles.includes(role)),
  );
  const versions = new Set(all.map(({ version }) => version));
  if (missing.length > 0) {
    const advice = 'give one of them the role with roles of its configuration, or start a node that has it';
    return [
      { check, verdict: 'fail', found: `no node has the role ${missing.join(', ')} (${names})`, advice },
    ];
  }
  if (over.length > 0) {
    const found = `the lease of ${over.map(({ name }) => name).join(', ')} is over`;
    const advice =
      'others deliver what it held within seconds; start it again, or look at its way to the database';
    return [{ check, verdict: 'warn', found, advice }];
  }
  if (gone.length > 0) {
    const lost = gone.map(
      ({ name, lastSeenAt, takenOverBy }) =>
        `${name} was last seen ${span(now - Date.parse(lastSeenAt))} ago, and ${takenOverBy} took over`,
    );
    const advice = 'look at its machine and start it again; it is forgotten after an hour';
    return [{ check, verdict: 'warn', found: lost.join('; '), advice }];
  }
  if (versions.size > 1) {
    const advice =
      'finish the upgrade: nodes of two versions share a database only while one is replaced by the other';
    return [{ check, verdict: 'warn', found: `versions ${[...versions].join(', ')} (${names})`, advice }];
  }
  return [{ check, verdict: 'ok', found: names }];
}

/** The database that nodes share, as its server tells; nothing with the embedded engine. */
function database({ database: at }: Overview): Finding[] {
  if (at === undefined) return [];
  const check = 'database';
  const lags = at.standbys.map(({ name, isSynchronous, behindBytes = 0 }) => {
    if (isSynchronous === undefined) return `, standby ${name} (hidden from the user of the database)`;
    const waited = isSynchronous ? 'synchronous, ' : '';
    return `, standby ${name} (${waited}${size(behindBytes)} behind)`;
  });
  const all: Finding = { check, verdict: 'ok', found: `PostgreSQL ${at.version}${lags.join('')}` };
  const problems = at.problems.map(
    ({ isSevere, found, advice }): Finding => ({ check, verdict: isSevere ? 'fail' : 'warn', found, advice }),
  );
  return problems.length > 0 ? problems : [all];
}

/**
 * Damage of stored events: what a running server has found so far, or a full read of a folder that no server
 * uses.
 */
export function storedEvents(
  damage: { events: number; deliveries: number; others?: readonly string[] | undefined } | undefined,
): Finding {
  const check = 'stored events';
  if (damage === undefined) return { check, verdict: 'ok', found: 'no damage was found' };
  const also = (damage.others ?? []).map((other) => `, ${other}`).join('');
  const found = `${count(damage.events)} events and ${count(damage.deliveries)} deliveries cannot be read${also}`;
  const advice = 'their bytes have changed: check the disk; restore a backup if they are needed';
  return { check, verdict: 'fail', found, advice };
}

function ledger({ balanced, differences }: Overview): Finding {
  if (balanced) return { check: 'ledger', verdict: 'ok', found: 'balanced' };
  const advice = 'millrace status shows every number; keep the data folder as it is and report it';
  return {
    check: 'ledger',
    verdict: 'fail',
    found: `${count(differences.length)} sums do not come out`,
    advice,
  };
}

/** Destinations that have problems. `millrace status` shows the reason. */
function destinations({ lanes, destinations: counts }: Overview, now: number): Finding[] {
  return Object.entries(lanes).flatMap(([name, lane]): Finding[] => {
    const { state, failingSince, refusingSince, lastError } = lane;
    const { pending = 0, dead = {} } = counts[name] ?? {};
    const check = `destination ${name}`;
    if (state === 'failed') {
      const found = `was stopped by a bug of Millrace (${lane.failure ?? 'see the log'}); ${count(pending)} wait`;
      return [{ check, verdict: 'warn', found, advice: 'start Millrace again, and report it' }];
    }
    if (state === 'failing' || state === 'refusing') {
      const begun = state === 'failing' ? failingSince : refusingSince;
      const since = begun === undefined ? '' : ` for ${span(now - Date.parse(begun))}`;
      const why = lastError === undefined ? '' : `: ${lastError.reason} at ${lastError.endpoint}`;
      const died = Object.values(dead).reduce((sum, n) => sum + n, 0);
      const what = state === 'failing' ? `${count(pending)} wait` : `${count(died)} dead letters`;
      const found = `${state === 'failing' ? 'fails' : 'refuses'}${since}${why}; ${what}`;
      return [{ check, verdict: 'warn', found, advice: `millrace status` }];
    }
    if (state === 'no_source') {
      const advice = 'name a source, an audience or a computed trait for it, or remove it';
      return [{ check, verdict: 'warn', found: 'has no source: nothing will be sent to it', advice }];
    }
    if ((state === 'paused' || state === 'disabled') && pending > 0) {
      const found = `is ${state}, and ${count(pending)} deliveries wait for it`;
      const advice = `millrace ${state === 'paused' ? 'resume' : 'enable'} ${name}`;
      return [{ check, verdict: 'warn', found, advice }];
    }
    const [[reason, n] = ['', 0]] = Object.entries(dead).toSorted(([, a], [, b]) => b - a);
    if (n === 0) return [];
    const found = `${count(n)} dead letters of the reason ${reason}`;
    const advice = `mend the cause, then millrace redeliver ${name} --reason ${reason}`;
    return [{ check, verdict: 'warn', found, advice }];
  });
}
