import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  IDLE_TIMEOUT,
  MAX_CONNECTION_AGE,
  MAX_CONNECTIONS,
  MAX_CONNECTIONS_PER_POOL,
} from '../../src/adapters/http-client/client.ts';
import { MAX_KEPT_BODY } from '../../src/adapters/http-client/connection.ts';
import { MAX_INTERIM_RESPONSES } from '../../src/adapters/http-client/response-parser.ts';
import { writtenSettings } from '../../src/config/destination-schema.ts';
import { loadConfig } from '../../src/config/load.ts';
import {
  FAILURE_THRESHOLD,
  FAILURE_WINDOW,
  FIRST_PROBE_DELAY,
  MAX_PROBE_DELAY,
  MAX_REST,
  RELAPSE_WINDOW,
} from '../../src/delivery/circuit-breaker.ts';
import { backoff, decide, JITTER, RETRY_DELAYS } from '../../src/delivery/retry-policy.ts';
import { outcomeOf, parseRetryAfter } from '../../src/destinations/http/outcomes.ts';
import { RESERVED_HEADERS } from '../../src/destinations/http/settings.ts';
import { signBody } from '../../src/destinations/http/signatures.ts';
import { REQUEST_TIMEOUT, webhooks as TYPE } from '../../src/destinations/webhooks/destination.ts';
import { RETRY_WINDOW } from '../../src/model/delivery.ts';
import { HOUR, MINUTE, SECOND } from '../../src/model/time.ts';
import type { FailureReason } from '../../src/ports/http-client.ts';

const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
const delivery = read('docs/reference/delivery.md');
const webhooks = read('docs/reference/webhooks.md');
const errors: Readonly<Record<string, Readonly<Record<string, unknown>>>> = JSON.parse(
  read('spec/errors.json'),
);

/** The rows of the table whose heading begins with these cells; each row as its cells. */
function table(text: string, ...headings: readonly string[]): string[][] {
  const lines = text.split('\n');
  const first = lines.findIndex((line) => line.startsWith(`| ${headings.join(' | ')} |`));
  expect([headings, first]).not.toEqual([headings, -1]);
  const rows: string[][] = [];
  for (const line of lines.slice(first + 2)) {
    if (!line.startsWith('|')) break;
    rows.push(
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    );
  }
  return rows;
}

/** `4 h` → milliseconds; `20 %` → 0.2; `20` → 20. */
function amount(text: string): number {
  const [number, unit = ''] = text.split(' ');
  const units: Readonly<Record<string, number>> = { '': 1, s: SECOND, min: MINUTE, h: HOUR, '%': 0.01 };
  return Number(number) * units[unit]!;
}

const NOW = 1_000_000_000_000;
const CLOCK = { now: () => NOW, monotonic: () => NOW };
const code = (cell: string | undefined) => cell?.replaceAll('`', '') ?? '';

describe('docs/reference/delivery.md', () => {
  it('has the outcome of every status there is', () => {
    const said = new Map<number, string>();
    for (const [range = '', outcome = ''] of table(delivery, 'status', 'outcome')) {
      const [from, to = from] = range.split('–').map(Number);
      for (let status = from!; status <= to!; status++) said.set(status, outcome);
    }
    for (let status = 200; status <= 999; status++) {
      const { kind, reason } = outcomeOf({ kind: 'answered', status, body: '', latencyMs: 1 }, CLOCK);
      expect([status, said.get(status), reason]).toEqual([status, kind, `status_${status}`]);
    }
  });

  it('has the outcome of every failure, and no other', () => {
    const rows = table(delivery, 'reason', 'outcome', 'what happened');
    for (const [reason, outcome] of rows) {
      const failed = {
        kind: 'failed',
        reason: code(reason) as FailureReason,
        detail: '',
        latencyMs: 1,
      } as const;
      expect([reason, outcomeOf(failed, CLOCK).kind]).toEqual([reason, outcome]);
    }
    // Those of a status are in the table of statuses.
    const known = Object.keys(errors['outcome']!).filter((reason) => !reason.startsWith('status_'));
    expect(rows.map(([reason]) => code(reason)).sort()).toEqual(known.sort());
  });

  it('has the schedule of retries', () => {
    const rows = table(delivery, 'failed rounds', 'delay');
    expect(rows.map(([, delay]) => amount(delay!))).toEqual(RETRY_DELAYS);
    expect(rows.map(([rounds]) => Number.parseInt(rounds!, 10))).toEqual(
      RETRY_DELAYS.map((_, nth) => nth + 1),
    );
    expect(backoff(RETRY_DELAYS.length + 5, 0.5)).toBe(RETRY_DELAYS.at(-1));
  });

  it('has the bounds of connections', () => {
    const bounds = table(delivery, 'bound', 'value').map(([, value]) => amount(value!));
    expect(bounds).toEqual([
      MAX_CONNECTIONS_PER_POOL,
      MAX_CONNECTIONS,
      MAX_CONNECTION_AGE,
      IDLE_TIMEOUT,
      MAX_INTERIM_RESPONSES,
    ]);
  });

  it('has the numbers of the retry window, and how often an endpoint is asked in it', () => {
    const [jitter, window, wish] = table(delivery, 'rule', 'value').map(([, value]) => amount(value!));
    expect([jitter, window]).toEqual([JITTER, RETRY_WINDOW]);
    expect(parseRetryAfter('99999999', NOW)).toBe(wish);
    let asked = 1;
    const outcomes = [{ place: 0, outcome: { kind: 'retryable', reason: 'timeout' } }] as const;
    let decision = decide(
      { position: 1, rounds: 0 },
      { outcomes, now: NOW, settingsVersion: 1, random: 0.5 },
    );
    while (decision.kind === 'retry') {
      asked++;
      const { at: now, next } = decision;
      decision = decide(next, { outcomes, now, settingsVersion: 1, random: 0.5 });
    }
    expect(delivery).toContain(`is asked ${asked} times in these four hours`);
  });

  it('has the numbers of the breaker', () => {
    const [, ...rest] = delivery.split('## When an endpoint is down');
    const values = table(rest.join(), 'rule', 'value').map(([, value]) => amount(value!));
    expect(values).toEqual([
      FAILURE_THRESHOLD,
      FAILURE_WINDOW,
      FIRST_PROBE_DELAY,
      MAX_PROBE_DELAY,
      MAX_REST,
      RELAPSE_WINDOW,
    ]);
  });

  it('has the reasons of skips and dead letters of the catalogue', () => {
    const reasons = (section: string) =>
      table(delivery.split(section)[1]!, 'reason', 'why').flatMap(
        ([cell = '']) => cell.match(/^`(.+)`$/)?.[1] ?? [],
      );
    expect(reasons('## What keeps an event').sort()).toEqual(Object.keys(errors['skip']!).sort());
    expect(reasons('## Dead letters').sort()).toEqual(Object.keys(errors['dead']!).sort());
  });

  it('has the time an endpoint has, and what is kept of its answer', () => {
    expect(delivery).toContain(`An endpoint has ${REQUEST_TIMEOUT / SECOND} seconds`);
    expect(delivery).toContain(`${MAX_KEPT_BODY / 1024} KB of it are kept`);
  });
});

/** The blocks of code in a language. */
function blocks(text: string, language: string): string[] {
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'))].map(([, code]) => code!);
}

describe('docs/reference/webhooks.md', () => {
  it('has examples of the configuration that the server takes as they are', () => {
    const examples = blocks(webhooks, 'yaml');
    expect(examples).toHaveLength(2);
    for (const text of examples) {
      const sources = 'sources: [{ name: website, writeKeys: [a] }, { name: app, writeKeys: [b] }]\n';
      const file = { path: 'millrace.yaml', text: sources + text };
      const env = { CRM_SECRET: 'a secret of the crm' };
      expect(loadConfig({ file, env, flags: {}, defaults: { host: '127.0.0.1' } }).warnings).toEqual([]);
    }
  });

  it('has an example that tells a request of ours from a forged one', async () => {
    const [example = ''] = blocks(webhooks, 'js');
    const { isAuthentic } = await import(`data:text/javascript,${encodeURIComponent(example)}`);
    const body = Buffer.from('{"type":"track"}');
    expect(isAuthentic(body, signBody(body, 's'), 's')).toBe(true);
    for (const forged of [signBody(body, 'other'), 'abc', '', undefined]) {
      expect(isAuthentic(body, forged, 's')).toBe(false);
    }
  });

  it('has every setting, and no other', () => {
    const rows = table(webhooks, 'setting', 'default').map(([setting]) => code(setting));
    expect(rows.sort()).toEqual(Object.keys(writtenSettings(TYPE).shape).sort());
  });

  it('has every reserved header', () => {
    const [, sentence = ''] =
      /Refused as names of static headers, in any case: ([^.]*)\. `Auth/s.exec(webhooks) ?? [];
    expect(sentence.match(/`[^`]+`/g)?.map(code)).toEqual(RESERVED_HEADERS);
  });
});
