import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { send, track } from '../support/calls.ts';
import { type MetricFamily, parseMetrics } from '../support/metrics-page.ts';
import { makePlace, type Place, type Program, ROOT, startServer } from '../support/program.ts';
import { freePort, startReceiver, type TestReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const SECRETS = ['wk_website_key', 'shared-s3cret', 'adm1n-token', 'Order Placed', 'hook-t0ken'];

const document = (path: string) => readFileSync(join(ROOT, path), 'utf8');

/**
 * One destination that is well, one that is not there, and one that wants to be asked twice and names its own
 * trace.
 */
const yaml = (receiver: TestReceiver, down: number, head: string) => `
${head}
unknownWriteKeys: discard
egress: { allow: [127.0.0.0/8] }
sources:
  - { name: website, writeKeys: [wk_website_key] }
  - { name: limited, writeKeys: [wk_limited], rateLimit: 1, trust: server }
destinations:
  - name: crm
    type: webhooks
    sources: [website]
    settings: { endpoints: [{ url: "${receiver.url}/in?key=hook-t0ken" }], sharedSecret: shared-s3cret }
  - { name: down, type: webhooks, sources: [website], settings: { endpoints: [{ url: "http://127.0.0.1:${down}/" }] } }
  - name: hesitant
    type: webhooks
    sources: [website]
    settings:
      endpoints:
        - { url: "${receiver.url}/twice" }
        - { url: "${receiver.url}/own", headers: { TraceParent: its-own } }
      success: each
alerts:
  - { name: ops, type: webhook, after: 4h, settings: { url: "${receiver.url}/alert" } }
`;

describe('a server with metrics', () => {
  let receiver: TestReceiver;
  let place: Place;
  let down: number;
  let program: Program;
  let admin: string;
  const asked = new Set<unknown>();

  beforeAll(async () => {
    receiver = await startReceiver({
      answer: (response, { path, headers }) => {
        const isFirst = path === '/twice' && !asked.has(headers['webhook-id']);
        if (isFirst) asked.add(headers['webhook-id']);
        response.writeHead(isFirst ? 503 : 200).end();
      },
    });
    down = await freePort();
    place = makePlace(yaml(receiver, down, 'admin: { token: adm1n-token, port: 0 }'));
    program = await start();
    [, admin = ''] = await program.saw(/ and its control API on (http:\S+)/);
  });

  afterAll(async () => {
    await program.stop();
    await receiver.stop();
    place.remove();
  });

  function start(config = place.config): Promise<Program> {
    return startServer({ ...place, config });
  }

  const get = (url: string, token?: string, method = 'GET') =>
    fetch(url, { method, headers: token === undefined ? {} : { authorization: `Bearer ${token}` } });

  /** Asks again until the page shows what it is asked for; pages are made at most once a second. */
  async function page(url: string, shows: (families: Map<string, MetricFamily>) => boolean) {
    return until('the page shows what it is asked for', async () => {
      const families = parseMetrics(await (await get(url, 'adm1n-token')).text());
      return shows(families) && families;
    });
  }

  it('has a port of its own for operators, and the other one knows nothing of it', async () => {
    const statuses = async (url: string) => {
      const paths = ['/api/v1/ledger', '/metrics', '/v1/projects/x/settings', '/healthz', '/readyz'];
      const answers = await Promise.all(paths.map((path) => get(url + path, 'adm1n-token')));
      return answers.map(({ status }) => status);
    };
    expect(await statuses(program.url)).toEqual([404, 404, 200, 200, 200]);
    expect(await statuses(admin)).toEqual([200, 200, 404, 200, 200]);
    expect((await send(admin, '/v1/track', track('m'))).status).toBe(404);
  });

  it('shows its metrics to every role and to nobody without a token', async () => {
    const made = await fetch(`${admin}/api/v1/tokens`, {
      method: 'POST',
      headers: { authorization: 'Bearer adm1n-token', 'content-type': 'application/json' },
      body: '{"name":"prometheus","role":"viewer"}',
    });
    const { token } = (await made.json()) as { token: string };
    const shown = await get(`${admin}/metrics`, token);
    expect([shown.status, shown.headers.get('content-type')]).toEqual([
      200,
      'text/plain; version=0.0.4; charset=utf-8',
    ]);
    for (const wrong of [undefined, 'wrong']) {
      const refused = await get(`${admin}/metrics`, wrong);
      expect([refused.status, refused.headers.get('content-type')]).toEqual([
        401,
        'application/problem+json',
      ]);
      expect(refused.headers.get('www-authenticate')).toMatch(/^Bearer /);
    }
    const head = await get(`${admin}/metrics/`, token, 'HEAD');
    expect([head.status, await head.text()]).toEqual([200, '']);
    const posted = await get(`${admin}/metrics`, token, 'POST');
    expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
  });

  it('counts what happens, and explains each of its metrics in the documents', async () => {
    const writeKey = 'wk_website_key';
    for (const id of ['a', 'b', 'a']) await send(program.url, '/v1/track', track(id), { writeKey });
    await send(program.url, '/v1/track', { event: 'of nobody' }, { writeKey });
    // At a time that cannot be read.
    const strange = { integrations: { crm: false }, timestamp: 'noon' };
    await send(program.url, '/v1/track', track('c', strange), { writeKey });
    await send(program.url, '/v1/track', track('d'), { writeKey: 'unknown' });
    await send(program.url, '/v1/track', '{', { writeKey });
    // The batch takes the calls of a minute.
    const batch = Array.from({ length: 60 }, (_, nth) => track(`limited-${nth}`));
    const headers = { origin: 'https://shop.example' };
    await send(program.url, '/v1/batch', { batch }, { writeKey: 'wk_limited', headers });
    await send(program.url, '/v1/track', track('too much'), { writeKey: 'wk_limited' });
    const value = (families: Map<string, MetricFamily>, name: string, labels: object = {}) =>
      families
        .get(name.replace(/_count$/, ''))
        ?.series.filter((one) => one.name === name && isPart(labels, one.labels))
        .reduce((sum, one) => sum + one.value, 0);
    const families = await page(
      `${admin}/metrics`,
      (now) =>
        value(now, 'millrace_delivered_total') === 8 &&
        value(now, 'millrace_received_total', { source: 'website' }) === 6 &&
        value(now, 'millrace_attempts_total', { destination: 'down' }) !== 0 &&
        value(now, 'millrace_lane_in_flight') === 0,
    );
    const expected: readonly (readonly [string, object, number])[] = [
      ['millrace_received_total', { source: 'website' }, 6],
      ['millrace_accepted_total', { source: 'website' }, 3],
      ['millrace_duplicates_total', { source: 'website' }, 1],
      ['millrace_changed_values_total', { source: 'website', change: 'unreadable_times' }, 1],
      ['millrace_discarded_total', { source: 'website', reason: 'no_user_anon_id' }, 1],
      ['millrace_unattributed_calls_total', { reason: 'unknown_write_key' }, 1],
      ['millrace_requests_total', { status: '2xx' }, 7],
      ['millrace_requests_total', { status: '4xx' }, 3],
      ['millrace_rate_limited_requests_total', { source: 'limited' }, 1],
      ['millrace_public_calls_total', { source: 'limited' }, 60],
      ['millrace_refused_requests_total', { code: 'rate_limited' }, 1],
      ['millrace_refused_requests_total', { code: 'no_user_anon_id' }, 1],
      ['millrace_discarded_total', { source: 'website', reason: 'invalid_json' }, 1],
      ['millrace_refused_requests_total', { code: 'invalid_json' }, 1],
      ['millrace_refused_requests_total', { code: 'not_found' }, 0],
      ['millrace_owed_total', { destination: 'hesitant' }, 6],
      ['millrace_delivered_total', { destination: 'crm' }, 2],
      ['millrace_skipped_total', { destination: 'crm', reason: 'integrations' }, 1],
      ['millrace_pending_deliveries', { destination: 'down' }, 3],
      ['millrace_ledger_balanced', {}, 1],
      ['millrace_attempts_total', { destination: 'crm', outcome: 'accepted', reason: 'status_2xx' }, 2],
      ['millrace_attempts_total', { destination: 'hesitant', outcome: 'retryable', reason: 'status_5xx' }, 3],
      ['millrace_delivery_duration_seconds_count', { destination: 'hesitant' }, 6],
      ['millrace_attempt_duration_seconds_count', { destination: 'hesitant' }, 9],
      ['millrace_destination_state', { destination: 'down', state: 'failing' }, 1],
      ['millrace_destination_state', { destination: 'crm', state: 'healthy' }, 1],
      ['millrace_dead_deliveries', {}, 0],
      ['millrace_store_readable', {}, 1],
      ['millrace_ready', {}, 1],
    ];
    expect(expected.map(([name, labels]) => [name, labels, value(families, name, labels)])).toEqual(expected);
    expect(value(families, 'millrace_commit_duration_seconds_count')).toBeGreaterThan(0);
    for (const name of ['millrace_oldest_pending_age_seconds', 'millrace_failing_seconds']) {
      expect(value(families, name, { destination: 'down' })).toBeGreaterThan(0);
    }
    expectDocumented(families);
  });

  it('goes on counting after a restart, writes a line for each call and round, and forwards traces', async () => {
    expect(await program.stop()).toBe(0);
    const debug = makePlace(
      yaml(receiver, down, 'admin: { token: adm1n-token }\nmetrics: { public: true }\nlog: debug'),
    );
    program = await start(debug.config);
    debug.remove();
    const shown = await get(`${program.url}/metrics`);
    const counts = parseMetrics(await shown.text());
    expect(counts.get('millrace_accepted_total')?.series).toMatchObject([{ value: 3 }, { value: 60 }]);
    expect(
      counts.get('millrace_attempts_total')?.series.filter(({ labels }) => labels['destination'] === 'crm'),
    ).toEqual([]);

    const call = (id: string, traceparent?: string) =>
      send(program.url, '/v1/track', track(id), {
        writeKey: 'wk_website_key',
        headers: traceparent === undefined ? {} : { traceparent },
      });
    await call('traced', TRACEPARENT);
    await call('untraced');
    await call('badly-traced', `${TRACEPARENT}0`);
    const of = (id: string) => receiver.arrivals.filter(({ headers }) => headers['webhook-id'] === id);
    const ids = ['traced', 'untraced', 'badly-traced'];
    // One request to the first destination, two to the other's first endpoint, one to its second.
    await receiver.until(() => ids.every((id) => of(id).length === 4));
    const forwarded = ids.map((id) =>
      of(id)
        .map(({ path, headers }) => `${path.replace(/\?.*/, '')} ${headers['traceparent'] ?? 'none'}`)
        .sort(),
    );
    const all = (trace: string) => [`/in ${trace}`, '/own its-own', `/twice ${trace}`, `/twice ${trace}`];
    expect(forwarded).toEqual([all(TRACEPARENT), all('none'), all('none')]);
    expect(JSON.stringify(receiver.arrivals.map(({ body }) => body.toString()))).not.toContain(TRACEPARENT);

    expect(await program.stop()).toBe(0);
    const lines = program.out.stderr
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    const accepted = lines.filter(({ event }) => event === 'call.accepted');
    expect(accepted.map(({ source, events, traceparent }) => [source, events, traceparent])).toEqual([
      ['website', 1, TRACEPARENT],
      ['website', 1, undefined],
      ['website', 1, undefined],
    ]);
    const settled = lines.filter(
      (line) => line['event'] === 'delivery.settled' && line['messageId'] === 'traced',
    );
    // The number of tries to the unreachable destination depends on the time.
    const told = settled.filter(({ destination }) => destination !== 'down');
    expect(told.map(({ destination, became }) => `${destination} ${became}`).sort()).toEqual([
      'crm delivered',
      'hesitant delivered',
      'hesitant delivered',
      'hesitant retry',
    ]);
    for (const secret of SECRETS) expect(program.out.stderr).not.toContain(secret);
  });
});

function isPart(labels: object, of: Readonly<Record<string, string>>): boolean {
  return Object.entries(labels).every(([label, text]) => of[label] === text);
}

/** Metrics without samples where no nodes share a database. */
const OF_NODES = /^millrace_(node|database)_/;

/**
 * The table has exactly the metrics of the page; alerts and dashboard name only metrics and labels that
 * exist.
 */
function expectDocumented(families: ReadonlyMap<string, MetricFamily>): void {
  // Of nodes and a database that they share, there are samples only where there is one.
  const isOfOthers = (name: string) => OF_NODES.test(name) && families.get(name)?.series.length === 0;
  const rows = document('docs/reference/metrics.md').matchAll(/^\| `([a-z0-9_]+)` \| (\w+) \|([^|]*)\|/gm);
  const told = Array.from(rows, ([, name = '', type, labels = '']) => [
    name,
    type,
    isOfOthers(name) ? [] : Array.from(labels.matchAll(/`(\w+)`/g), ([, label]) => label).sort(),
  ]);
  const labelsOf = ({ series }: MetricFamily) =>
    [...new Set(series.flatMap(({ labels }) => Object.keys(labels)))]
      .filter((label) => label !== 'le')
      .sort();
  const shown = Array.from(families.values(), (family) => [family.name, family.type, labelsOf(family)]);
  const byName = (rows: unknown[][]) => rows.sort((a, b) => String(a[0]).localeCompare(String(b[0])));
  expect(byName(told)).toEqual(byName(shown));
  for (const { name, series } of families.values())
    if (!isOfOthers(name)) expect([name, series.length]).not.toEqual([name, 0]);

  const alerts = parse(document('docs/operations/alerts.yml')) as Alerts;
  const rules = alerts.groups.flatMap((group) => group.rules);
  expect(rules.length).toBeGreaterThan(10);
  for (const { alert, labels, annotations } of rules) {
    expect([alert, labels.severity, annotations.summary]).toEqual([
      expect.stringMatching(/^Millrace[A-Z]/),
      expect.stringMatching(/^(critical|warning)$/),
      expect.stringMatching(/\.$/),
    ]);
  }
  const board = JSON.parse(document('docs/operations/dashboard.json')) as Dashboard;
  const charted = board.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  const queries = board.templating.list.flatMap(({ query }) =>
    typeof query === 'string' ? [] : [query.query],
  );
  expect(new Set(board.panels.map(({ id }) => id)).size).toBe(board.panels.length);
  for (const expression of [...rules.map(({ expr }) => expr), ...charted, ...queries])
    expectKnown(expression, families);
  const isCharted = (name: string) => charted.some((expression) => expression.includes(name));
  expect([...families.keys()].filter((name) => !isCharted(name))).toEqual([]);
}

function expectKnown(expression: string, families: ReadonlyMap<string, MetricFamily>): void {
  const metrics = [...expression.matchAll(/\b((?:millrace|process)_[a-z0-9_]+)(?:\{([^}]*)\})?/g)];
  expect([expression, metrics.length]).not.toEqual([expression, 0]);
  for (const [, name = '', matchers = ''] of metrics) {
    if (OF_NODES.test(name) && families.has(name)) continue;
    const series = [...families.values()]
      .flatMap((family) => family.series)
      .filter((one) => one.name === name);
    expect([expression, name, series.length]).not.toEqual([expression, name, 0]);
    for (const [, label = '', operator, text = ''] of matchers.matchAll(/(\w+)(=~?)"([^"]*)"/g)) {
      // Labels that Prometheus adds itself, and variables that the reader of the dashboard chooses.
      if (label === 'instance' || text.startsWith('$')) continue;
      const pattern = new RegExp(`^(?:${operator === '=~' ? text : text.replaceAll('.', '\\.')})$`);
      expect([expression, label, series.some(({ labels }) => pattern.test(labels[label] ?? ''))]).toEqual([
        expression,
        label,
        true,
      ]);
    }
  }
}

interface Alerts {
  readonly groups: readonly {
    readonly rules: readonly {
      readonly alert: string;
      readonly expr: string;
      readonly labels: { readonly severity: string };
      readonly annotations: { readonly summary: string };
    }[];
  }[];
}

interface Dashboard {
  readonly panels: readonly {
    readonly id: number;
    readonly targets?: readonly { readonly expr: string }[];
  }[];
  readonly templating: { readonly list: readonly { readonly query: string | { readonly query: string } }[] };
}
