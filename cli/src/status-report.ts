import type { Overview } from '@millrace/server';
import { count, counted, minuteOf, printable, secondOfDay, size, span } from './column.ts';
import type { Paint } from './paint.ts';
import { type Cell, type Heading, table } from './table.ts';

type Difference = Overview['differences'][number];
type Changes = Overview['changedValues'][string];
type Lane = Overview['lanes'][string];
type DiskParts = NonNullable<Overview['disk']>['parts'];
type ByReason = Readonly<Record<string, number>>;

const NAME: Omit<Heading, 'title'> = { align: 'left', most: 32, least: 10 };
const MOST_DISCARDS = 10;
const NONE: Cell = { text: '–' };
const DAY = 24 * 60 * 60 * 1000;

/** The most urgent message: clients get 503. */
export const TURNED_AWAY = 'CALLS ARE TURNED AWAY (503)';

export interface ReportOptions {
  readonly url: string;
  readonly paint: Paint;
  /** The reasons in `/readyz` why calls are turned away. Absent or empty when calls are accepted. */
  readonly reasons?: readonly string[];
}

/**
 * Formats the answer of `/api/v1/status` for an operator on call.
 *
 * ```
 * Millrace on http://127.0.0.1:8080, started 3 h ago, version 0.3.0
 *
 * source   received  accepted  duplicates  discarded  reasons
 * website     1,234     1,200          10         24  no_user_anon_id 20, event_not_defined 4
 *
 * destination  state     owed  delivered  pending  retrying  dead  erased  skipped  oldest waiting  reasons
 * crm          healthy  1,200      1,150       47        12     3       0        0  12 min          dead: status_410 3
 *
 * failing endpoint          destination  since  last error
 * https://b.example/hook    crm          14:03  timeout 3 s ago
 *
 * calls of no source  5 refused: invalid_write_key 5
 * store               12.3 MB, 1,200 events, the oldest 3 h old
 * disk                31 GB free of 40 GB; the data folder takes 14.3 MB: store 12.3 MB, write-ahead log 2 MB
 * commits             50 % within 1.2 ms, 99 % within 4.8 ms (1,200 in 15 min)
 * ledger              balanced
 *
 * last discarded  reason           when      call
 * website         no_user_anon_id  12 s ago  {"type":"track","event":"Order Placed"}
 * ```
 */
export function statusReport(overview: Overview, { url, paint, reasons = [] }: ReportOptions): string {
  const now = Date.parse(overview.at);
  const started = span(now - Date.parse(overview.startedAt));
  return [
    paint.bold(`Millrace on ${url}, started ${started} ago, version ${printable(overview.version)}`),
    ...reasons.map((reason) => paint.red(`${TURNED_AWAY}: ${printable(reason)}`)),
    '',
    ...sourceLines(overview, paint),
    '',
    ...destinationLines(overview, now, paint),
    ...endpointLines(overview, now, paint),
    '',
    ...nodeLines(overview, now, paint),
    ...factLines(overview, now, paint),
    ...discardLines(overview, now, paint),
    '',
  ].join('\n');
}

function sourceLines({ sources }: Overview, paint: Paint): string[] {
  const rows = Object.entries(sources).map(([name, counts]) => {
    const { received, accepted, duplicates, discarded } = counts;
    return [
      { text: name },
      ...[received, accepted, duplicates].map(number),
      marked(sumOf(discarded), paint.yellow),
      { text: reasonsOf(discarded) },
    ];
  });
  if (rows.length === 0) return ['no sources'];
  const numbers = ['received', 'accepted', 'duplicates', 'discarded'];
  return table([{ title: 'source', ...NAME }, ...numbers.map(atRight), REASONS_AT_END], rows, paint);
}

function destinationLines({ destinations, lanes }: Overview, now: number, paint: Paint): string[] {
  // Few types drop anything, and the table is wide.
  const anyDropped = Object.values(destinations).some(({ dropped }) => sumOf(dropped) > 0);
  const rows = Object.entries(destinations).map(([name, counts]) => {
    const { owed, delivered, pending, dead, dropped, erased, skipped } = counts;
    const lane = lanes[name];
    const retrying = lane === undefined ? NONE : marked(lane.retrying, paint.yellow);
    const reasons = [
      errorOf(lane, now),
      heldOf(lane, pending),
      reasonsOf(dead, 'dead: '),
      reasonsOf(dropped, 'dropped: '),
      reasonsOf(skipped, 'skipped: '),
    ];
    return [
      { text: name },
      stateOf(lane, paint),
      ...[owed, delivered, pending].map(number),
      retrying,
      marked(sumOf(dead), paint.red),
      ...(anyDropped ? [number(sumOf(dropped))] : []),
      number(erased),
      number(sumOf(skipped)),
      waitingOf(lane, now),
      { text: joined(reasons) },
    ];
  });
  if (rows.length === 0) return ['no destinations'];
  const ends = anyDropped ? ['dead', 'dropped', 'erased'] : ['dead', 'erased'];
  const numbers = ['owed', 'delivered', 'pending', 'retrying', ...ends, 'skipped'];
  return table(
    [
      { title: 'destination', ...NAME },
      { title: 'state', align: 'left' },
      ...numbers.map(atRight),
      { title: 'oldest waiting', align: 'left' },
      REASONS_AT_END,
    ],
    rows,
    paint,
  );
}

/**
 * Failing endpoints that their destination may hide: with `success: any`, a destination stays healthy without
 * them.
 */
function endpointLines({ lanes }: Overview, now: number, paint: Paint): string[] {
  const rows = Object.entries(lanes).flatMap(([name, { endpoints }]) =>
    endpoints.flatMap(({ endpoint, state, since, lastError }): Cell[][] => {
      if (state !== 'failing' || endpoints.length < 2) return [];
      const { reason = '', at, answer = '' } = lastError ?? {};
      const when = at === undefined ? '' : ` ${span(now - Date.parse(at))} ago`;
      const said = answer === '' ? '' : `: ${answer}`;
      return [
        [
          { text: endpoint, draw: paint.red },
          { text: name },
          { text: since === undefined ? '' : sinceText(since, now) },
          { text: `${reason}${when}${said}` },
        ],
      ];
    }),
  );
  if (rows.length === 0) return [];
  const headings: Heading[] = [
    { title: 'failing endpoint', align: 'left', least: 24 },
    { title: 'destination', ...NAME },
    { title: 'since', align: 'left' },
    { title: 'last error', align: 'left', most: 120, least: 24 },
  ];
  return ['', ...table(headings, rows, paint)];
}

/** The words of an operator for each kind of change. */
const CHANGES: Readonly<Record<keyof Changes['counts'], string>> = {
  numbers_as_text: 'numbers kept as text',
  unreadable_times: 'times not readable',
  skewed_clocks: 'clocks more than 24 h off',
  replaced_message_ids: 'messageIds replaced',
  shortened_addresses: 'addresses shortened',
  dropped_addresses: 'addresses dropped',
};

function changesText({ counts, unreadableTime }: Changes): string {
  const parts = Object.entries(counts).map(
    ([change, n]) => `${CHANGES[change as keyof typeof CHANGES] ?? change} ${count(n)}`,
  );
  return (
    parts.join(', ') +
    (unreadableTime === undefined ? '' : ` (such as ${printable(JSON.stringify(unreadableTime))})`)
  );
}

function factLines(overview: Overview, now: number, paint: Paint): string[] {
  const { callsOfNoSource, changedValues, rateLimitedRequests, log, balanced, differences } = overview;
  // Earlier servers do not say.
  const { publicCalls = {} } = overview as Partial<Overview>;
  const { refused, discarded } = callsOfNoSource;
  const stray = [
    reasonsOf(refused, `${count(sumOf(refused))} refused: `),
    reasonsOf(discarded, `${count(sumOf(discarded))} discarded: `),
  ];
  const oldest = log.oldestAt === undefined ? '' : `, the oldest ${span(now - Date.parse(log.oldestAt))} old`;
  const facts: [string, string][] = [
    ['calls of no source', joined(stray) || 'none since the start'],
    ['store', `${size(log.bytes)}, ${counted(log.events, 'event')}${oldest}`],
    ...diskFacts(overview),
    ...commitFacts(overview),
    ...databaseFacts(overview, paint),
    ...profileFacts(overview, paint),
    ...regulationFacts(overview, now, paint),
    ['ledger', balanced ? paint.green('balanced') : paint.red(paint.bold('NOT BALANCED'))],
  ];
  if (log.damage !== undefined) {
    const { events, deliveries, others = [] } = log.damage;
    const also = others.map((other) => `, ${other}`).join('');
    const lost = `${count(events)} events and ${count(deliveries)} deliveries cannot be read${also}: check the disk`;
    facts.splice(2, 0, ['damage', paint.red(paint.bold(lost))]);
  }
  for (const [source, requests] of Object.entries(rateLimitedRequests)) {
    const text = `${printable(source)}: ${counted(requests, 'request')} answered 429, to be sent again later`;
    facts.splice(1, 0, ['over rate limit', text]);
  }
  for (const [source, calls] of Object.entries(publicCalls)) {
    const text = `${printable(source)}: ${counted(calls, 'call')} of browsers or phones or more, so set trust: client`;
    facts.splice(1, 0, ['public write key', paint.yellow(text)]);
  }
  for (const [source, changes] of Object.entries(changedValues))
    facts.splice(1, 0, ['changed values', `${printable(source)}: ${changesText(changes)}`]);
  return [
    ...facts.map(([what, text]) => `${what.padEnd(18)}  ${text}`),
    ...differences.map((difference) => paint.red(`  ${differenceText(difference)}`)),
  ];
}

const DISK_PARTS = {
  store: 'store',
  writeAheadLog: 'write-ahead log',
  profiles: 'profiles',
  timeline: 'timeline',
  other: 'other files',
} as const satisfies Record<keyof DiskParts, string>;

/**
 * `31 GB free of 40 GB; the data folder takes 14.3 MB: store 12.3 MB, …`; nothing where the disk cannot be
 * asked.
 */
function diskFacts({ disk }: Overview): [string, string][] {
  if (disk === undefined) return [];
  const { free, used, parts, limit } = disk;
  const sizes = Object.entries(DISK_PARTS).flatMap(([part, name]) => {
    const bytes = parts[part as keyof DiskParts];
    return bytes === undefined ? [] : [`${name} ${size(bytes)}`];
  });
  const most = limit === undefined ? '' : `; events may take ${size(limit)}`;
  const of = sizes.length === 0 ? '' : `: ${sizes.join(', ')}`;
  return [
    ['disk', `${size(free)} free of ${size(disk.size)}; the data folder takes ${size(used)}${of}${most}`],
  ];
}

/** `50 % within 1.2 ms, 99 % within 4.8 ms (1,200 in 15 min)`; nothing while nothing is stored. */
function commitFacts({ commits: { count: number, p50Ms, p99Ms } }: Overview): [string, string][] {
  if (p50Ms === undefined || p99Ms === undefined) return [];
  const within = `50 % within ${p50Ms} ms, 99 % within ${p99Ms} ms`;
  return [['commits', `${within} (${count(number)} in 15 min)`]];
}

/** The nodes that share the database; nothing with the embedded engine. */
function nodeLines({ nodes = [], goneNodes = [] }: Overview, now: number, paint: Paint): string[] {
  if (nodes.length === 0) return [];
  const rows = nodes.map(({ name, isSelf, roles, version, since, leaseLeftMs, jobs }) => [
    { text: isSelf ? `${name} (asked)` : name },
    leaseLeftMs > 0 ? { text: 'valid', draw: paint.green } : { text: 'over', draw: paint.red },
    { text: `${span(now - Date.parse(since))} ago` },
    { text: version },
    { text: roles.join(', ') },
    { text: jobs.join(', ') },
  ]);
  const gone = goneNodes.map(({ name, roles, version, lastSeenAt, takenOverBy }) => [
    { text: name },
    { text: 'gone', draw: paint.red },
    { text: `last seen ${secondOfDay(Date.parse(lastSeenAt))}` },
    { text: version },
    { text: roles.join(', ') },
    { text: `nothing: ${takenOverBy} took over` },
  ]);
  const headings = ['lease', 'started', 'version', 'roles', 'alone does'];
  const left = headings.map((title): Heading => ({ title, align: 'left' }));
  return [...table([{ title: 'node', ...NAME }, ...left], [...rows, ...gone], paint), ''];
}

/** `PostgreSQL 15.6`, its standbys, and what is wrong with it; nothing with the embedded engine. */
function databaseFacts({ database }: Overview, paint: Paint): [string, string][] {
  if (database === undefined) return [];
  const { version, standbys, problems } = database;
  const copies = standbys.map(({ name, isSynchronous, behindBytes, behindMs = 0 }) => {
    const standby = `standby ${printable(name)}`;
    if (isSynchronous === undefined) return `${standby}: hidden from the user of the database`;
    const lag =
      behindBytes === undefined
        ? 'lag unknown'
        : `${size(behindBytes)} behind, confirmed in ${count(behindMs)} ms`;
    return `${standby} (${isSynchronous ? 'commits wait for it' : 'not waited for'}): ${lag}`;
  });
  return [
    ['database', [`PostgreSQL ${version}`, ...copies].join('; ')],
    ...problems.map(({ isSevere, found, advice }): [string, string] => [
      '',
      (isSevere ? paint.red : paint.yellow)(`${printable(found)}: ${printable(advice)}`),
    ]),
  ];
}

/** `1,200, 3 s behind (45 events)`; nothing while nothing needs profiles. */
function profileFacts({ profiles: at }: Overview, paint: Paint): [string, string][] {
  if (at === undefined) return [];
  const { state, reason = 'see its log', profiles, bytes, behind, lagMs, failed, skipped } = at;
  if (state === 'failed') return [['profiles', paint.red(paint.bold(`STAND STILL: ${printable(reason)}`))]];
  const late = `${span(lagMs)} behind (${counted(behind, 'event')})`;
  const troubles = [
    failed.length === 0 ? '' : `cannot be computed: ${failed.map(printable).join(', ')}`,
    skipped === 0 ? '' : `${counted(skipped, 'event')} left out, see the log`,
  ];
  return [
    [
      'profiles',
      `${count(profiles)}, ${size(bytes)}, ${state === 'live' ? 'up to date' : paint.yellow(late)}`,
    ],
    ...troubles.filter((text) => text !== '').map((text): [string, string] => ['', paint.red(text)]),
  ];
}

/** Deletions under way and suppressed users; nothing when there are none. */
function regulationFacts({ regulations }: Overview, now: number, paint: Paint): [string, string][] {
  const { open, oldestAt, isFailing, suppressed } = regulations;
  if (open + suppressed === 0) return [];
  const oldest = oldestAt === undefined ? '' : `, the oldest ${span(now - Date.parse(oldestAt))} old`;
  const failing = isFailing ? paint.red('; a step fails and is repeated, see the log') : '';
  const users = suppressed === 0 ? '' : `; ${counted(suppressed, 'id')} suppressed`;
  return [['deletions', `${open === 0 ? 'none' : count(open)} under way${oldest}${failing}${users}`]];
}

/** The latest discarded call of each source and reason, cut to a line. The control API has whole calls. */
function discardLines({ discards }: Overview, now: number, paint: Paint): string[] {
  if (discards.length === 0) return [];
  const rows = discards
    .slice(0, MOST_DISCARDS)
    .map(({ source, reason, at, call }) => [
      source === undefined ? NONE : { text: source },
      { text: reason },
      { text: `${span(now - Date.parse(at))} ago` },
      { text: call },
    ]);
  const headings = ['reason', 'when'].map((title): Heading => ({ title, align: 'left' }));
  return ['', ...table([{ title: 'last discarded', ...NAME }, ...headings, CALL], rows, paint)];
}

/** `destination crm: 2 lost: owed 100, delivered 90, pending 5, dead 3, dropped 0, erased 0`. */
function differenceText(given: Difference): string {
  const { difference, ...terms } = given;
  const [[kind, name], ...numbers] = Object.entries(terms) as [[string, string], ...[string, number][]];
  const what = difference > 0 ? `${count(difference)} lost` : `${count(-difference)} counted twice`;
  return `${kind} ${printable(name)}: ${what}: ${numbers.map(([term, n]) => `${term} ${count(n)}`).join(', ')}`;
}

const REASONS_AT_END: Heading = { title: 'reasons', align: 'left', least: 24 };
const CALL: Heading = { title: 'call', align: 'left', most: 120, least: 24 };

function atRight(title: string): Heading {
  return { title, align: 'right' };
}

function number(n: number): Cell {
  return { text: count(n) };
}

/** A number, coloured when it is not 0. */
function marked(n: number, draw: (text: string) => string): Cell {
  return n === 0 ? number(n) : { ...number(n), draw };
}

function stateOf(lane: Lane | undefined, paint: Paint): Cell {
  if (lane === undefined) return NONE;
  const { green, red, yellow } = paint;
  const draws = {
    ...{ failed: red, healthy: green, failing: red, refusing: red, paused: yellow, disabled: yellow },
    ...{ no_source: yellow, never_asked: undefined },
  } as const;
  const draw = draws[lane.state];
  return { text: lane.state.replace('_', ' '), draw };
}

/** Start of a failure and the last error: `failing since 14:03 (status_503 at https://… 3 s ago)`. */
function errorOf(lane: Lane | undefined, now: number): string {
  if (lane?.state === 'failed')
    return `stopped by a bug of Millrace until the next start (${printable(lane.failure ?? '')})`;
  if (lane?.state !== 'failing' && lane?.state !== 'refusing') return '';
  if (lane.lastError === undefined) return '';
  const { reason, endpoint, at } = lane.lastError;
  const gone = reason === 'status_410' ? ', which says that it is gone for good' : '';
  const error = `${reason} at ${endpoint} ${span(now - Date.parse(at))} ago${gone}`;
  const begun = lane.state === 'failing' ? lane.failingSince : lane.refusingSince;
  if (begun === undefined) return error;
  const since = sinceText(begun, now);
  return `${lane.state} ${since.includes(':') ? `since ${since}` : `for ${since}`} (${error})`;
}

/** A past time: `14:03`, or `3 d` when it is a day or more ago. */
function sinceText(time: string, now: number): string {
  const since = Date.parse(time);
  const age = now - since;
  return age < DAY ? secondOfDay(since).slice(0, 5) : span(age);
}

/**
 * Deliveries of a paused or disabled destination, and their expiry: `1,234 wait, kept until 2026-03-11
 * 05:06`.
 */
function heldOf(lane: Lane | undefined, pending: number): string {
  if (lane === undefined || pending === 0) return '';
  if (lane.state !== 'paused' && lane.state !== 'disabled') return '';
  const { oldestKeptUntil } = lane;
  const until = oldestKeptUntil === undefined ? '' : `, kept until ${minuteOf(oldestKeptUntil)}`;
  return `${count(pending)} ${pending === 1 ? 'waits' : 'wait'}${until}`;
}

/** Age of the oldest waiting event, and the time of the next retry. */
function waitingOf(lane: Lane | undefined, now: number): Cell {
  const { oldestPendingAt, nextDueAt } = lane ?? {};
  const wait = nextDueAt === undefined ? 0 : Date.parse(nextDueAt) - now;
  const parts = [
    oldestPendingAt === undefined ? '' : span(now - Date.parse(oldestPendingAt)),
    wait > 0 ? `next try in ${span(wait)}` : '',
  ];
  const text = parts.filter((part) => part !== '').join(', ');
  return text === '' ? NONE : { text };
}

/** Reasons behind the label, most frequent first. Empty when there are none. */
function reasonsOf(counts: ByReason, label = ''): string {
  const sorted = Object.entries(counts).toSorted(([, a], [, b]) => b - a);
  if (sorted.length === 0) return '';
  return label + sorted.map(([reason, n]) => `${reason} ${count(n)}`).join(', ');
}

function joined(texts: readonly string[]): string {
  return texts.filter((text) => text !== '').join('; ');
}

function sumOf(counts: ByReason): number {
  return Object.values(counts).reduce((sum, n) => sum + n, 0);
}
