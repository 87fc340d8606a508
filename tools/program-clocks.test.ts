import { expect, it } from 'vitest';
import { askedIn, breachesIn, OWN } from './program-clocks.ts';

it.each([
  ['const timer = setTimeout(run, 5);', ['setTimeout']],
  ['setImmediate(this.#endTurn);', ['setImmediate']],
  ['const at = performance.now();', ['performance.now']],
  ['const options = { random: Math.random };', ['Math.random']],
  ['const made = { newId: uuidv7 };', ['uuidv7']],
  ['return new Date().toISOString();', ['new Date()']],
  ["import { setTimeout as delay } from 'node:timers/promises';", ['node:timers/promises']],
  ['clock.now(); new Date(at); socket.setTimeout(5); const { setTimeout: after } = tools;', []],
  ['interface Clock { setTimeout(run: () => void): void }', []],
  ['// performance.now() is finer', []],
])('%s', (text, asked) => {
  expect(askedIn('delivery/worker.ts', text)).toEqual(asked);
});

it('refuses a file that is not in the list, and an entry that is not needed', () => {
  const needed = Object.keys(OWN).map((entry) => ({
    path: entry.endsWith('/') ? `${entry}any.ts` : entry,
    text: 'Date.now();',
  }));
  expect(breachesIn(needed)).toEqual([]);
  const late = { path: 'delivery/worker.ts', text: 'Date.now();' };
  expect(breachesIn([...needed, late])).toEqual([
    expect.stringMatching(/worker\.ts asks the machine \(Date\.now\)/),
  ]);
  expect(breachesIn(needed.slice(1))).toEqual([
    expect.stringMatching(/asks the machine for nothing any more/),
  ]);
});
