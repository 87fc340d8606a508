import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { openMemoryStore } from '../../test/memory-store/store.ts';
import { handClock } from '../../test/support/clock.ts';
import { type MetricFamily, parseMetrics } from '../../test/support/metrics-page.ts';
import { StorageError } from '../ports/event-log.ts';
import { MetricsPage, type MetricsPageDependencies } from './metrics.ts';
import { MetricsRegistry } from './registry.ts';

const NOON = Date.UTC(2026, 0, 1, 12);

function page(more: Partial<MetricsPageDependencies> = {}) {
  const clock = handClock(NOON);
  const { queue, log } = openMemoryStore();
  const asked = { ledger: 0 };
  const metrics = new MetricsPage({
    retention: 1000,
    registry: new MetricsRegistry(),
    queue,
    log,
    clock,
    disk: async () => undefined,
    version: '1.2.3',
    ledger: async () => {
      asked.ledger++;
      return { sources: {}, destinations: {}, balanced: true, differences: [] };
    },
    settings: () => NOTHING,
    destinationStates: () => [],
    callsOfNoSource: () => ({ discarded: {}, refused: {} }),
    changedValues: () => ({}),
    rateLimitedRequests: () => ({}),
    publicCalls: () => ({}),
    users: () => ({ isFailed: false, isLate: false, restarts: 0 }),
    readiness: () => [],
    ...more,
  });
  return { metrics, clock, asked };
}

const RECORDS = { sources: [], destinations: [], audiences: [], traits: [] };
const NOTHING = { ...RECORDS, gone: RECORDS, alerts: [], tokens: [], replays: [], splits: [] };

const only = (families: ReadonlyMap<string, MetricFamily>, name: string) =>
  families.get(name)?.series.map(({ value }) => value);

const document = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');

describe('the page', () => {
  it('comes without the ledger when the store cannot be read, and says so', async () => {
    const { metrics } = page({ ledger: () => Promise.reject(new StorageError('the disk is gone')) });
    const families = parseMetrics(await metrics.text());
    expect(only(families, 'millrace_store_readable')).toEqual([0]);
    expect(only(families, 'millrace_requests_total')).toEqual([0, 0, 0, 0]);
    expect(families.has('millrace_ledger_balanced')).toBe(false);
  });

  it('is of the installation where it is read from the store, as the reference says of each metric', async () => {
    const nodes = { list: async () => [], gone: async () => [], database: async () => undefined } as never;
    const regulations = () => ({ open: 0, isFailing: false, suppressed: 0 });
    const ledger = () => Promise.reject(new StorageError('the disk is gone'));
    const disk = async () => ({ used: 1, free: 1, size: 1, parts: {} }) as never;
    const textOf = (more: Partial<MetricsPageDependencies>) =>
      page({ nodes, regulations, disk, ...more }).metrics.text();
    const text = await textOf({});
    const whole = [...parseMetrics(text).keys()];
    const withoutStore = new Set(parseMetrics(await textOf({ ledger })).keys());
    const reference = document('docs/reference/metrics.md');
    const told = [...reference.matchAll(/^\| `(\w+)` \| \w+ \|[^|]*\| (\S+) \|/gm)].map((row) =>
      row.slice(1),
    );
    const isOf = (name: string) => {
      // Every node knows all suppressions, to refuse their calls.
      if (!withoutStore.has(name) || name === 'millrace_suppressed_ids') return 'all';
      if (name.startsWith('millrace_alert_')) return '`alerts`';
      return /^millrace_(profiles|computations|regulations)/.test(name) ? '`users`' : 'node';
    };
    expect(told.sort()).toEqual(whole.map((name) => [name, isOf(name)]).sort());
    const whose = { all: 'Of the installation: the same on every node.', node: 'Of this node.' };
    for (const [, name = '', help] of text.matchAll(/^# HELP (\w+) (.*)$/gm)) {
      const said = whose[isOf(name) as keyof typeof whose] ?? 'Of the node that has this job.';
      expect([name, help]).toEqual([name, expect.stringMatching(new RegExp(`\\. ${said}$`))]);
    }
  });

  it('is not added up over nodes by the rules and the dashboard, where it is of the installation', () => {
    const rows = document('docs/reference/metrics.md').matchAll(/^\| `(\w+)` \| \w+ \|[^|]*\| all \|/gm);
    const names = Array.from(rows, ([, name]) => name).join('|');
    const sources = ['docs/operations/alerts.yml', 'docs/operations/dashboard.json'].map(document);
    let checked = 0;
    for (const text of sources) {
      for (const [use] of text.matchAll(new RegExp(`.{0,80}\\b(${names})\\b`, 'g'))) {
        if (!/expr|max|min|[>/]/.test(use) || /label_values/.test(use)) continue;
        expect(use).toMatch(
          /\b(max|min)( by \([^)]*\)| without \(instance, pod\))? ?\((rate\(|increase\(|delta\()?millrace_\w+$/,
        );
        checked++;
      }
    }
    expect(checked).toBeGreaterThan(25);
  });

  it('says when the ledger does not balance and when calls cannot be accepted', async () => {
    const statement = { sources: {}, destinations: {}, balanced: false, differences: [] };
    const { metrics } = page({ ledger: async () => statement, readiness: () => ['full'] });
    const families = parseMetrics(await metrics.text());
    expect(only(families, 'millrace_ledger_balanced')).toEqual([0]);
    expect(only(families, 'millrace_ready')).toEqual([0]);
  });

  it('is made once a second, however many ask, also after the clock was set back', async () => {
    const { metrics, clock, asked } = page();
    await Promise.all([metrics.text(), metrics.text()]);
    await clock.pass(999);
    await metrics.text();
    expect(asked.ledger).toBe(1);
    await clock.pass(1);
    await metrics.text();
    expect(asked.ledger).toBe(2);
  });

  it('leaves out the disk when the data folder cannot be looked at', async () => {
    const { metrics } = page({ disk: async () => undefined });
    const families = parseMetrics(await metrics.text());
    expect(families.has('millrace_disk_free_bytes')).toBe(false);
    expect(only(families, 'millrace_store_readable')).toEqual([1]);
  });
});
