import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createLineLogger } from './line-logger.ts';
import { paintFor } from './paint.ts';

beforeAll(() => void vi.stubEnv('TZ', 'UTC'));
afterAll(() => void vi.unstubAllEnvs());

function logged(level: string): string[] {
  const lines: string[] = [];
  const logger = createLineLogger({
    level,
    paint: paintFor({}, {}),
    now: () => Date.UTC(2026, 0, 2, 10, 23, 45, 131),
    write: (line) => lines.push(line),
  });
  logger.debug({}, 'a');
  logger.info({}, 'b');
  logger.warn(
    { destination: 'crm', failures: 5, last: { status: 503 }, missing: undefined },
    'destination.failing',
  );
  logger.error({ error: new Error('disk\nfull') }, 'storage.failed');
  return lines;
}

describe('the log for a person', () => {
  it('has one line per entry, with its facts', () => {
    expect(logged('warn')).toEqual([
      '10:23:45.131  warn  destination.failing  destination=crm  failures=5  last={"status":503}\n',
      '10:23:45.131  error  storage.failed  error=disk·full\n',
    ]);
  });

  it('leaves out what is below its level', () => {
    expect(
      [logged('debug'), logged('info'), logged('error'), logged('silent')].map(({ length }) => length),
    ).toEqual([4, 3, 1, 0]);
  });
});
