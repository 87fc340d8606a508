import { describe, expect, it } from 'vitest';
import { formatMetrics } from './prometheus.ts';
import { Histogram, MetricsRegistry } from './registry.ts';

describe('the text', () => {
  it('names, explains and types every family, also one without a series', () => {
    expect(
      formatMetrics([
        { name: 'a_total', type: 'counter', help: 'All of a.', samples: [] },
        { name: 'b', type: 'gauge', help: 'One b.', samples: [{ labels: {}, value: 0.5 }] },
      ]),
    ).toBe('# HELP a_total All of a.\n# TYPE a_total counter\n# HELP b One b.\n# TYPE b gauge\nb 0.5\n');
  });

  it('escapes what would end a label or a line', () => {
    const samples = [{ labels: { source: 'a"b\\c\nd', reason: '' }, value: 1 }];
    expect(formatMetrics([{ name: 'x', type: 'gauge', help: 'back\\slash', samples }])).toBe(
      '# HELP x back\\\\slash\n# TYPE x gauge\nx{source="a\\"b\\\\c\\nd",reason=""} 1\n',
    );
  });

  it('adds up the buckets of a histogram, in seconds', () => {
    const histogram = new Histogram([5, 100]);
    for (const milliseconds of [1, 5, 6, 100, 101]) histogram.add(milliseconds);
    const samples = [histogram.read({ destination: 'crm' })];
    expect(
      formatMetrics([{ name: 'h', type: 'histogram', help: 'H.', samples }])
        .split('\n')
        .slice(2),
    ).toEqual([
      'h_bucket{destination="crm",le="0.005"} 2',
      'h_bucket{destination="crm",le="0.1"} 4',
      'h_bucket{destination="crm",le="+Inf"} 5',
      'h_sum{destination="crm"} 0.213',
      'h_count{destination="crm"} 5',
      '',
    ]);
  });
});

describe('attempts', () => {
  const arrivedAt = Date.UTC(2026, 0, 1);
  const attempt = (reason: string, kind: 'accepted' | 'retryable' | 'refused', status?: number) => ({
    endpoint: 'http://crm/',
    startedAt: 0,
    latencyMs: 3,
    outcome: { kind, reason, ...(status === undefined ? {} : { status }) },
  });

  it('of one class of status are one series, whatever statuses an endpoint makes up', () => {
    const counts = new MetricsRegistry().forDestination(1);
    const now = arrivedAt + 40;
    for (let status = 400; status < 429; status++) {
      counts.attemptEnded(
        arrivedAt,
        [attempt(`status_${status}`, 'refused', status)],
        { kind: 'dead', reason: 'x' },
        now,
      );
    }
    counts.attemptEnded(
      arrivedAt,
      [attempt('status_429', 'retryable', 429)],
      { kind: 'dead', reason: 'x' },
      now,
    );
    counts.attemptEnded(
      arrivedAt,
      [attempt('timeout', 'retryable'), attempt('status_204', 'accepted', 204)],
      { kind: 'delivered' },
      now,
    );
    const all = counts.attempts({ destination: 'crm' });
    expect(all.reduce((sum, { value }) => sum + value, 0)).toBe(32);
    expect(all.map(({ labels }) => `${labels['outcome']} ${labels['reason']}`).sort()).toEqual([
      'accepted status_2xx',
      'refused status_4xx',
      'retryable status_4xx',
      'retryable timeout',
    ]);
    expect(counts.deliveries.read({})).toMatchObject({ count: 1, sum: 0.04 });
    expect(counts.requests.read({}).count).toBe(32);
  });
});
