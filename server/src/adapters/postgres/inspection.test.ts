import { describe, expect, it } from 'vitest';
import { MINUTE } from '../../model/time.ts';
import { type DatabaseFacts, databaseProblems, type StandbyFacts } from './inspection.ts';

const GOOD: DatabaseFacts = {
  version: '15.6',
  user: 'millrace',
  now: 0,
  fsync: 'on',
  full_page_writes: 'on',
  autovacuum: 'on',
  statement_timeout: '0',
  idle_session_timeout: '0',
  synchronous: '',
  connections: 100,
  nodes: 3,
  files: ['a, b, c'],
  transaction_age: null,
  transaction_pid: null,
  idle_slots: null,
};

const STANDBY: StandbyFacts = { name: 's1', sync_state: 'sync', behind_bytes: 0, behind_ms: 2 };

/** The problems in the form `severe: what was found → what to do`. */
function said(change: Partial<DatabaseFacts>, standbys: readonly StandbyFacts[] = [], ahead = 0): string[] {
  return databaseProblems({ ...GOOD, ...change }, standbys, ahead).map(
    ({ isSevere, found, advice }) => `${isSevere ? 'severe' : 'warning'}: ${found} → ${advice}`,
  );
}

describe('the inspection of the database', () => {
  it('finds nothing where all is well', () => {
    expect(said({})).toEqual([]);
    expect(said({ synchronous: '*' }, [STANDBY])).toEqual([]);
    expect(said({ transaction_age: MINUTE, transaction_pid: 7, idle_slots: 1000 }, [], 4999)).toEqual([]);
    expect(said({ idle_session_timeout: '1h' })).toEqual([]);
  });

  it('calls severe what loses events or stops all writes', () => {
    expect(said({ fsync: 'off' })).toEqual([expect.stringMatching(/^severe: fsync is off → .*fsync = on$/)]);
    expect(said({ full_page_writes: 'off' })).toEqual([expect.stringMatching(/^severe: .*full_page_writes/)]);
    expect(said({ autovacuum: 'off' })).toEqual([expect.stringMatching(/^severe: .*autovacuum = on$/)]);
    expect(said({ synchronous: 's1' })).toEqual([
      'severe: commits wait for a standby (s1), and none is connected → start the standby, or take it out of synchronous_standby_names',
    ]);
  });

  it('warns of configuration files that differ, and names the nodes that agree together', () => {
    expect(said({ files: ['a, b', 'c'] })).toEqual([
      'warning: the configuration files of its nodes differ (a, b / c) → the file of the node that starts last is in force for all: ' +
        'give them one file, and start those again that had another',
    ]);
    expect(said({ files: [] })).toEqual([]);
  });

  it('warns of standbys that a failover would lose events with, and of those that it may not see', () => {
    expect(said({}, [{ ...STANDBY, sync_state: 'async' }])).toEqual([
      expect.stringMatching(/^warning: no standby confirms commits → .*synchronous_standby_names$/),
    ]);
    const hidden = { name: null, sync_state: null, behind_bytes: null, behind_ms: null };
    expect(said({ synchronous: '*' }, [hidden])).toEqual([
      expect.stringMatching(/^warning: .* → grant pg_monitor to millrace/),
    ]);
  });

  it('warns of time limits, of too few connections, and of other clocks', () => {
    expect(said({ statement_timeout: '30s' })).toEqual([
      expect.stringMatching(/^warning: statement_timeout is 30s → .*alter role millrace/),
    ]);
    expect(said({ idle_session_timeout: '5s' })).toEqual([
      expect.stringMatching(/idle_session_timeout = 0$/),
    ]);
    expect(said({ connections: 40, nodes: 3 })).toEqual([
      expect.stringMatching(/^warning: max_connections is 40 with 3 nodes → .* 48 or more$/),
    ]);
    expect(said({}, [], -61_000)).toEqual([
      expect.stringMatching(/^warning: its clock is 61 s behind this node's → .*NTP/),
    ]);
  });

  it('warns of what keeps deleted rows and old logs', () => {
    expect(said({ transaction_age: 12 * MINUTE, transaction_pid: 77 })).toEqual([
      expect.stringMatching(
        /^warning: a transaction is open for 12 min \(process 77\) → .*pg_terminate_backend\(77\)$/,
      ),
    ]);
    expect(said({ idle_slots: 5 * 2 ** 30 })).toEqual([expect.stringMatching(/keep 5 GB of its log → /)]);
  });
});
