import { afterAll, beforeAll, expect, vi } from 'vitest';

/**
 * Test files run in the same process, one after the other, and each must leave it unchanged: stubs are
 * removed here, and a file that leaves anything else behind fails.
 */
let before: object;

beforeAll(() => {
  before = processState();
});

// The hooks of a setup file run last.
afterAll(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
  expect(processState(), 'of the process that the next test file runs in').toEqual(before);
});

function processState(): object {
  return {
    env: { ...process.env },
    folder: process.cwd(),
    // zod keeps its registry there, from the first test on that loads a verb or a schema.
    globals: Object.keys(globalThis)
      .filter((name) => !name.startsWith('__zod_'))
      .sort(),
    uncaughtException: process.listenerCount('uncaughtException'),
    unhandledRejection: process.listenerCount('unhandledRejection'),
    signals: ['SIGTERM', 'SIGINT', 'SIGHUP'].map((signal) => process.listenerCount(signal)),
  };
}
