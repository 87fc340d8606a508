import { expect, it } from 'vitest';
import { CallTallies } from './tallies.ts';

it('adds up what belongs to no source, by reason', () => {
  const tallies = new CallTallies();
  expect(tallies.read()).toEqual({ discarded: {}, refused: {}, clock: { unparseable: 0, skewed: 0 } });
  tallies.discarded({});
  tallies.discarded({ unknown_write_key: 2 });
  tallies.discarded({ unknown_write_key: 1, not_an_object: 1 });
  tallies.refused('invalid_write_key');
  tallies.refused('invalid_json');
  tallies.refused('invalid_write_key');
  tallies.clock({ unparseable: 1, skewed: 0 });
  tallies.clock({ unparseable: 2, skewed: 5 });
  expect(tallies.read()).toEqual({
    discarded: { unknown_write_key: 3, not_an_object: 1 },
    refused: { invalid_write_key: 2, invalid_json: 1 },
    clock: { unparseable: 3, skewed: 5 },
  });
});
