import { beforeEach, describe, expect, it } from 'vitest';
import { emptyContents, openMemoryStore } from '../../test/memory-store/store.ts';
import { handClock } from '../../test/support/clock.ts';
import type { AlertRecord } from '../model/alert.ts';
import { HOUR, MINUTE, SECOND } from '../model/time.ts';
import type { AnsweredOutcome } from '../ports/destination-type.ts';
import type { LaneOverview } from '../reporting/contract.ts';
import { SettingsService } from '../wiring/settings-service.ts';
import type { Facts } from './conditions.ts';
import { AlertSender } from './sender.ts';
import { AlertService } from './service.ts';

const START = Date.parse('2026-03-04T05:00:00Z');
const ALERT: AlertRecord = {
  name: 'on call',
  type: 'webhook',
  enabled: true,
  on: ['destination_failing', 'deliveries_dying', 'ledger_unbalanced', 'disk_filling', 'profiles_stopped'],
  after: MINUTE,
  remindEvery: 4 * HOUR,
  settings: { url: 'https://alerts.example/in', headers: {} },
};
const COUNTS = {
  owed: 0,
  delivered: 0,
  pending: 0,
  dead: {},
  dropped: {},
  erased: 0,
  skipped: {},
  balance: 0,
};

interface Told {
  readonly id: string;
  readonly at: number;
  readonly summary: string;
  readonly changes: readonly { change: string; condition: string; destination?: string; count?: number }[];
}

/** The outcome of a request that was answered. */
function answerOf(status: number, answer = ''): AnsweredOutcome {
  const kind = status < 300 ? 'accepted' : status < 500 ? 'refused' : 'retryable';
  return { outcome: { kind, reason: `status_${status}`, status }, answer, latencyMs: 1 };
}

/** A server with destinations whose state a test sets, and one receiver of alerts. */
class World {
  clock = handClock(START);
  readonly contents = emptyContents();
  readonly told: Told[] = [];
  readonly failing = new Set<string>();
  readonly dead = new Map<string, number>();
  readonly names = ['crm', 'warehouse', 'ads'];
  profiles: Facts['overview']['profiles'];
  differences: Facts['overview']['differences'] = [];
  disk: Facts['disk'] = { used: 0 };
  answer: AnsweredOutcome = answerOf(204);
  looks = 0;
  /** No destination was sent anything yet: each counts as healthy, and its endpoints are as they were. */
  isNew = false;
  settings!: SettingsService;
  service!: AlertService;
  #ids = 0;

  /** Starts the service on what is stored, as a new process would. */
  async start(): Promise<void> {
    const store = openMemoryStore({ contents: this.contents }).settings;
    this.settings = new SettingsService(store, await store.load());
    this.service = new AlertService({
      settings: this.settings,
      facts: async () => this.#facts(),
      sender: new AlertSender({
        mailer: { send: async () => ({ kind: 'failed', detail: 'no mail here' }) },
        post: async (_, { id, bytes }) => this.#receive(id, bytes),
        speaker: { node: 'n1', version: '1' },
        clock: this.clock,
      }),
      newId: () => `id-${++this.#ids}`,
      clock: this.clock,
      logger: { info: () => {}, warn: () => {}, error: () => {} },
    });
    this.service.start();
  }

  async save(alert: AlertRecord): Promise<void> {
    await this.settings.change(() => ({ sources: [], destinations: [], alerts: [alert] }));
  }

  /** The messages since the last call, each as its changes. */
  heard(): string[] {
    return this.told
      .splice(0)
      .map(({ changes }) =>
        changes
          .map(({ change, condition, destination = '', count = '' }) =>
            [change, condition, destination, count].filter((part) => part !== '').join(' '),
          )
          .join(', '),
      );
  }

  #receive(id: string, body: Buffer): AnsweredOutcome {
    if (this.answer.outcome.kind === 'accepted') {
      const { data } = JSON.parse(body.toString()) as { data: Omit<Told, 'id' | 'at'> };
      this.told.push({ id, at: this.clock.now(), ...data });
    }
    return this.answer;
  }

  #facts(): Facts {
    this.looks++;
    const lane = (name: string): LaneOverview => {
      const state = this.failing.has(name) ? 'failing' : 'healthy';
      const endpoint = { endpoint: `https://${name}.example/`, state } as const;
      return {
        state: this.isNew ? 'healthy' : state,
        ...{ held: 0, onDisk: 0, retrying: 0, endpoints: [endpoint] },
      };
    };
    const counts = (name: string) => ({ ...COUNTS, dead: { status_410: this.dead.get(name) ?? 0 } });
    return {
      at: this.clock.now(),
      overview: {
        lanes: Object.fromEntries(this.names.map((name) => [name, lane(name)])),
        destinations: Object.fromEntries(this.names.map((name) => [name, counts(name)])),
        differences: this.differences,
        ...(this.profiles === undefined ? {} : { profiles: this.profiles }),
      },
      disk: this.disk,
      explain: () => ({ message: 'It is down.', hint: 'Wait.' }),
    };
  }
}

let world: World;

beforeEach(async () => {
  world = new World();
  await world.start();
  await world.save(ALERT);
  await world.clock.pass(10 * SECOND);
  expect(world.heard()).toEqual([]);
});

describe('a destination that fails', () => {
  it('is told once it has lasted, reminded of, and told to be over when that has lasted', async () => {
    world.failing.add('crm');
    await world.clock.pass(55 * SECOND);
    expect(world.heard()).toEqual([]);
    await world.clock.pass(15 * SECOND);
    expect(world.heard()).toEqual(['started destination_failing crm']);
    await world.clock.pass(3 * HOUR);
    expect(world.heard()).toEqual([]);
    await world.clock.pass(HOUR);
    expect(world.heard()).toEqual(['continues destination_failing crm']);
    world.failing.delete('crm');
    await world.clock.pass(50 * SECOND);
    expect(world.heard()).toEqual([]);
    await world.clock.pass(20 * SECOND);
    expect(world.heard()).toEqual(['ended destination_failing crm']);
    await world.clock.pass(5 * HOUR);
    expect(world.heard()).toEqual([]);
  });

  it('is no message when it flaps: neither its failures nor its recoveries last', async () => {
    for (let n = 0; n < 40; n++) {
      world.failing.add('crm');
      await world.clock.pass(30 * SECOND);
      world.failing.delete('crm');
      await world.clock.pass(30 * SECOND);
    }
    expect(world.heard()).toEqual([]);
  });

  it('shares a message with all that fail at the same time, and those soon after share the next', async () => {
    for (const name of ['crm', 'warehouse']) world.failing.add(name);
    await world.clock.pass(40 * SECOND);
    world.failing.add('ads');
    await world.clock.pass(2 * MINUTE + 30 * SECOND);
    expect(world.heard()).toEqual([
      'started destination_failing crm, started destination_failing warehouse',
      'started destination_failing ads',
    ]);
  });

  it('is not repeated by a restart, whether it goes on or is over meanwhile', async () => {
    world.failing.add('crm');
    await world.clock.pass(2 * MINUTE);
    expect(world.heard()).toEqual(['started destination_failing crm']);
    await world.service.stop();
    world.isNew = true;
    await world.start();
    await world.clock.pass(10 * MINUTE);
    expect(world.heard()).toEqual([]);
    world.isNew = false;
    await world.service.stop();
    world.failing.delete('crm');
    await world.start();
    await world.clock.pass(10 * MINUTE);
    expect(world.heard()).toEqual(['ended destination_failing crm']);
  });

  it('is said to be paused or removed where that is why it no longer fails', async () => {
    world.failing.add('crm');
    await world.clock.pass(2 * MINUTE);
    world.names.splice(0, 1);
    await world.clock.pass(2 * MINUTE);
    expect(world.told.at(-1)!.summary).toBe('crm was removed');
  });

  it('is told of as it lasts, whatever the wall clock is set to', async () => {
    world.failing.add('crm');
    world.clock.step(-24 * HOUR);
    await world.clock.pass(2 * MINUTE);
    world.clock.step(48 * HOUR);
    await world.clock.pass(2 * HOUR);
    expect(world.heard()).toEqual(['started destination_failing crm']);
  });
});

describe('a message', () => {
  it('that is not taken is sent again under its id, and nothing new comes before it', async () => {
    world.answer = answerOf(500, 'no');
    world.failing.add('crm');
    await world.clock.pass(3 * MINUTE);
    world.failing.add('ads');
    await world.clock.pass(10 * MINUTE);
    expect(world.service.health()[0]).toMatchObject({
      isWaiting: true,
      last: { kind: 'failed', status: 500 },
    });
    world.answer = answerOf(200);
    await world.clock.pass(20 * MINUTE);
    expect(world.told.map(({ id }) => id)).toEqual(['id-1', 'id-2']);
    expect(world.heard()).toEqual(['started destination_failing crm', 'started destination_failing ads']);
  });

  it('whose answer was lost with the process is sent again under the same id', async () => {
    world.answer = {
      outcome: { kind: 'retryable', reason: 'connection_closed' },
      answer: 'reset',
      latencyMs: 1,
    };
    world.failing.add('crm');
    await world.clock.pass(2 * MINUTE);
    await world.service.stop();
    world.answer = answerOf(200);
    await world.start();
    await world.clock.pass(MINUTE);
    expect(world.told.map(({ id }) => id)).toEqual(['id-1']);
  });

  it('that nobody takes for a day is given up, and what is still the case is told anew', async () => {
    world.answer = { outcome: { kind: 'retryable', reason: 'timeout' }, answer: 'late', latencyMs: 1 };
    world.failing.add('crm');
    await world.clock.pass(26 * HOUR);
    world.answer = answerOf(200);
    await world.clock.pass(HOUR);
    expect(world.told[0]!.id).not.toBe('id-1');
    expect(world.heard()[0]).toBe('started destination_failing crm');
  });

  it('goes to the new address at once when the alert is mended', async () => {
    world.answer = answerOf(404);
    world.failing.add('crm');
    await world.clock.pass(HOUR);
    world.answer = answerOf(200);
    const [stored] = world.settings.now().alerts;
    await world.save({ ...stored, settings: { url: 'https://new.example/', headers: {} } } as AlertRecord);
    await world.clock.pass(6 * SECOND);
    expect(world.heard()).toEqual(['started destination_failing crm']);
  });
});

describe('dead letters', () => {
  it('are told at once, then with their number once every reminder, and not those from before', async () => {
    world.dead.set('crm', 3);
    await world.clock.pass(6 * SECOND);
    expect(world.heard()).toEqual(['happened deliveries_dying crm 3']);
    for (let n = 4; n <= 100; n++) {
      world.dead.set('crm', n);
      await world.clock.pass(MINUTE);
    }
    expect(world.heard()).toEqual([]);
    await world.clock.pass(3 * HOUR);
    expect(world.heard()).toEqual(['happened deliveries_dying crm 97']);
    await world.clock.pass(5 * HOUR);
    expect(world.heard()).toEqual([]);
  });

  it('that come after a redelivery are counted from there', async () => {
    world.dead.set('crm', 100);
    await world.clock.pass(6 * SECOND);
    world.dead.set('crm', 0);
    await world.clock.pass(5 * HOUR);
    world.heard();
    world.dead.set('crm', 5);
    await world.clock.pass(MINUTE);
    expect(world.heard()).toEqual(['happened deliveries_dying crm 5']);
  });

  it('that came while the server was down or the alert disabled are told', async () => {
    await world.service.stop();
    world.dead.set('ads', 7);
    await world.start();
    await world.clock.pass(MINUTE);
    expect(world.heard()).toEqual(['happened deliveries_dying ads 7']);
  });
});

describe('an alert', () => {
  it('hears of what it is about only', async () => {
    const [stored] = world.settings.now().alerts;
    await world.save({ ...stored!, on: ['destination_failing'], destinations: ['ads'] });
    for (const name of world.names) world.failing.add(name);
    world.dead.set('ads', 5);
    world.disk = { used: 95, limit: 100 };
    await world.clock.pass(5 * MINUTE);
    expect(world.heard()).toEqual(['started destination_failing ads']);
  });

  it('tells of the ledger, the disk and profiles', async () => {
    world.differences = [
      {
        destination: 'crm',
        difference: 2,
        owed: 3,
        delivered: 1,
        pending: 0,
        dead: 0,
        dropped: 0,
        erased: 0,
      },
    ];
    world.disk = { used: 91, limit: 100, disk: { free: 50, size: 100 } };
    world.profiles = {
      state: 'failed',
      ...{ profiles: 0, bytes: 0, behind: 0, lagMs: 0, failed: [], skipped: 0 },
    };
    await world.clock.pass(2 * MINUTE);
    expect(world.heard()).toEqual([
      'started ledger_unbalanced, started disk_filling, started profiles_stopped',
    ]);
    world.disk = { used: 50, limit: 100, disk: { free: 4, size: 100 } };
    world.differences = [];
    await world.clock.pass(3 * MINUTE);
    expect(world.heard()).toEqual(['ended ledger_unbalanced']);
  });

  it('looks at nothing while there is none', async () => {
    await world.settings.change(() => ({
      ...{ sources: [], destinations: [] },
      removed: [{ kind: 'alert', name: ALERT.name }],
    }));
    const { looks } = world;
    await world.clock.pass(HOUR);
    expect(world.looks).toBe(looks);
  });

  it('of a thousand failing destinations is one message', async () => {
    for (let n = 0; n < 1000; n++) {
      world.names.push(`d${n}`);
      world.failing.add(`d${n}`);
    }
    await world.clock.pass(10 * MINUTE);
    expect(world.told).toHaveLength(1);
    expect(world.told[0]!.changes).toHaveLength(1000);
    expect(world.told[0]!.summary).toBe('d0 is failing and 999 more');
  });
});
