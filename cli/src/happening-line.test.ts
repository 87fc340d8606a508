import type { Activity } from '@millrace/server';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { happeningLine, isFailure } from './happening-line.ts';
import { paintFor } from './paint.ts';
import type { SignatureVerdict } from './signature.ts';

type Settled = Extract<Activity, { kind: 'settled' }>;
type Attempt = Settled['attempts'][number];

beforeAll(() => void vi.stubEnv('TZ', 'UTC'));
afterAll(() => void vi.unstubAllEnvs());

const NOW = Date.UTC(2026, 0, 2, 10, 23, 45, 131);
const PLAIN = paintFor({ isTTY: false }, {});

const event: Settled['event'] = {
  messageId: 'm-1',
  type: 'track',
  channel: 'server',
  event: 'Order Placed',
  userId: 'u1',
  context: {},
  integrations: {},
  timestamp: '2026-01-02T10:23:45.000Z',
  receivedAt: '2026-01-02T10:23:45.000Z',
};

function lineOf(happening: Activity, signature?: SignatureVerdict): string {
  return happeningLine(happening, { now: NOW, paint: PLAIN, ...(signature ? { signature } : {}) });
}

function accepted(changes: Partial<Settled['event']>): string {
  return lineOf({ kind: 'accepted', source: 'dev', event: { ...event, ...changes }, latencyMs: 3.04 });
}

function attempt(outcome: Attempt['outcome'], latencyMs = 6): Attempt {
  return { endpoint: 'http://127.0.0.1:4000', startedAt: NOW - 6, latencyMs, outcome };
}

function settled(attempts: readonly Attempt[], decision: Settled['decision']): Settled {
  return { kind: 'settled', source: 'dev', destination: 'local-receiver', event, attempts, decision };
}

const ok = attempt({ kind: 'accepted', reason: 'status_200', status: 200 });
const unavailable = attempt({ kind: 'retryable', reason: 'status_503', status: 503 });
const silent = attempt({ kind: 'retryable', reason: 'timeout' }, 5001);
const retry: Settled['decision'] = { kind: 'retry', at: NOW + 2000 };

describe('the line of a happening', () => {
  it('shows an accepted event with type, name, user and latency', () => {
    expect(accepted({})).toBe(
      '10:23:45.131  track       Order Placed            u1              accepted in 3 ms',
    );
  });

  it('finds the name of every type of event, and the anonymous user', () => {
    const { event: _, userId: __, ...bare } = event;
    const named = (changes: Partial<Settled['event']>) =>
      lineOf({ kind: 'accepted', source: 'dev', event: { ...bare, ...changes }, latencyMs: 1 }).slice(14, 66);
    expect(named({ type: 'page', name: 'Home', anonymousId: 'a1' })).toBe(
      'page        Home                    a1              ',
    );
    expect(named({ type: 'group', groupId: 'g1', userId: 'u1' })).toBe(
      'group       g1                      u1              ',
    );
    expect(named({ type: 'alias', previousId: 'a1', userId: 'u1' })).toBe(
      'alias       was a1                  u1              ',
    );
    expect(named({ type: 'identify' })).toBe('identify    –                       –               ');
  });

  it('shows a duplicate and a discarded call as what they are', () => {
    expect(lineOf({ kind: 'duplicate', source: 'dev', event, latencyMs: 1 })).toBe(
      '10:23:45.131  track       Order Placed            u1              duplicate, not delivered again',
    );
    expect(lineOf({ kind: 'discarded', source: 'dev', reason: 'user_id_missing' })).toBe(
      '10:23:45.131  –           discarded               dev             user_id_missing',
    );
  });

  it('shows a delivery in the same columns, with destination, status, signature and latency', () => {
    const delivery = settled([ok], { kind: 'delivered' });
    const subject = '10:23:45.131  → track     Order Placed            u1              local-receiver    ';
    expect(lineOf(delivery, 'verified')).toBe(`${subject}200 verified ✓ in 6 ms`);
    expect(lineOf(delivery, 'wrong')).toBe(`${subject}200 wrong signature ✗ in 6 ms`);
    expect(lineOf(delivery, 'unsigned')).toBe(`${subject}200 not signed – in 6 ms`);
    expect(lineOf(delivery)).toBe(`${subject}200 in 6 ms`);
  });

  it('shows why a delivery is tried again, and when', () => {
    const subject = '10:23:45.131  ↻ track     Order Placed            u1              local-receiver    ';
    expect(lineOf(settled([unavailable], retry))).toBe(`${subject}503 in 6 ms, again in 2 s (10:23:47)`);
    expect(lineOf(settled([silent], retry))).toBe(`${subject}timeout in 5.0 s, again in 2 s (10:23:47)`);
    expect(lineOf(settled([unavailable, silent], retry))).toBe(
      `${subject}503, timeout in 5.0 s, again in 2 s (10:23:47)`,
    );
  });

  it('shows a dead letter with its reason, even if nothing was sent', () => {
    const subject = '10:23:45.131  ✗ track     Order Placed            u1              local-receiver    ';
    const gone = attempt({ kind: 'refused', reason: 'status_410', status: 410 });
    expect(lineOf(settled([gone], { kind: 'dead', reason: 'status_410' }))).toBe(
      `${subject}410 in 6 ms, dead letter: status_410`,
    );
    expect(lineOf(settled([], { kind: 'dead', reason: 'retry_window_over' }))).toBe(
      `${subject}not sent, dead letter: retry_window_over`,
    );
  });

  it('keeps to one line and obeys nothing that a client sends', () => {
    const line = accepted({ event: '\u001b]0;owned\u0007\nfake line', userId: 'u'.repeat(500) });
    expect(line).toContain('·]0;owned··fake line');
    expect(line).toContain(`${'u'.repeat(13)}…  accepted`);
    expect(line).not.toMatch(/\p{Cc}/u);
  });

  it('calls what did not go well a failure', () => {
    expect(isFailure({ kind: 'accepted', source: 'dev', event, latencyMs: 1 })).toBe(false);
    expect(isFailure({ kind: 'duplicate', source: 'dev', event, latencyMs: 1 })).toBe(false);
    expect(isFailure(settled([ok], { kind: 'delivered' }))).toBe(false);
    expect(isFailure(settled([unavailable], retry))).toBe(true);
    expect(isFailure(settled([], { kind: 'dead', reason: 'retry_window_over' }))).toBe(true);
    expect(isFailure({ kind: 'discarded', source: 'dev', reason: 'user_id_missing' })).toBe(true);
  });
});

describe('colour', () => {
  it('is used on a terminal only, and not where NO_COLOR or a dumb terminal asks for none', () => {
    const painted = (output: { isTTY?: boolean }, env: NodeJS.ProcessEnv) => paintFor(output, env).red('x');
    expect(painted({ isTTY: true }, {})).toBe('\u001b[31mx\u001b[39m');
    expect(painted({ isTTY: true }, { NO_COLOR: '' })).toBe('\u001b[31mx\u001b[39m');
    expect(painted({ isTTY: true }, { NO_COLOR: '1' })).toBe('x');
    expect(painted({ isTTY: true }, { TERM: 'dumb' })).toBe('x');
    expect(painted({}, { CI: '1' })).toBe('x');
  });
});
