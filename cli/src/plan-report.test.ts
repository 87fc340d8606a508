import { describe, expect, it } from 'vitest';
import { paintFor } from './paint.ts';
import { type Plan, planReport } from './plan-report.ts';

const paint = paintFor({ isTTY: false }, {});
const NOTHING: Plan = { applied: false, changes: [], kept: [], disconnects: [] };

describe('the report of millrace plan and apply', () => {
  it('shows every field that changes, secrets only by how they end, and what stays', () => {
    const text = planReport(
      {
        ...NOTHING,
        changes: [
          { action: 'created', kind: 'source', name: 'app', after: { name: 'app', writeKeys: ['wk'] } },
          {
            ...{ action: 'changed', kind: 'destination', name: 'crm' },
            before: {
              settings: { url: 'https://a.example', secret: { set: true, hint: '3cr7' }, rateLimit: 5 },
            },
            after: { settings: { url: 'https://b.example', secret: { set: true } } },
          },
          { action: 'removed', kind: 'source', name: 'old', before: { name: 'old' } },
        ],
        kept: ['source website'],
        disconnects: [{ destination: 'billing', owed: 1200 }],
      },
      paint,
    );
    expect(text).toBe(`+ source app
    writeKeys: ["wk"]
~ destination crm
    settings.url: "https://a.example" → "https://b.example"
    settings.secret: a secret ending in 3cr7 → a secret
    settings.rateLimit: 5 → not set
- source old

Destination billing is still owed 1,200 deliveries, and this disconnects it.
Would be: 1 created, 1 changed, 1 removed. Not in the file, and kept: source website.
`);
  });

  it('says so when a secret is replaced by one that looks the same, and when there is nothing to change', () => {
    const same = { settings: { secret: { set: true } } };
    const changed = {
      action: 'changed',
      kind: 'destination',
      name: 'crm',
      before: same,
      after: same,
    } as const;
    expect(planReport({ ...NOTHING, applied: true, changes: [changed] }, paint)).toBe(
      '~ destination crm\n    a secret, by another one that looks the same from outside\n\nDone: 1 changed.\n',
    );
    expect(planReport(NOTHING, paint)).toBe('Nothing to change.\n');
  });

  it('shows nothing to the terminal that it would obey, and cuts what is long', () => {
    const after = { name: '\u001b[31m', a: 'x'.repeat(500) };
    const text = planReport(
      { ...NOTHING, changes: [{ action: 'created', kind: 'source', name: '\u001b[31m', after }] },
      paint,
    );
    expect(text).not.toContain('\u001b');
    expect(text.split('\n')[1]).toHaveLength(107);
  });
});
