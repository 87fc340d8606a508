import { Database } from '../../../src/adapters/postgres/database.ts';
import { databaseClockMark, PostgresNodes } from '../../../src/adapters/postgres/nodes.ts';
import { NODE_ROLES } from '../../../src/model/node.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import { openMemoryLogReader } from '../../memory-store/log-reader.ts';
import { openMemoryProfiles } from '../../memory-store/profile-store.ts';
import { openLeasedPorts } from '../../memory-store/store.ts';
import { type Kernel, type Life, START } from '../kernel.ts';
import type { Chance } from '../random.ts';
import type { CutOff } from '../scenario.ts';
import { DOUBTFUL, KEY_SECRET, portsThrough, READS, SimulatedStore, type StoreAsker } from '../store.ts';
import {
  type Beginning,
  FAIR,
  type OpenedStore,
  type StoreChannel,
  type StoreListener,
  type Weather,
  type WorldStore,
} from '../world-store.ts';
import { clientsOf, type LeaseClient, type Way } from './client.ts';
import {
  type Effect,
  type Fate,
  INSTALLATION,
  LeaseServer,
  type Query,
  STORE_OPERATION,
  type StoreOperation,
} from './server.ts';

interface Parts {
  readonly kernel: Kernel;
  readonly chance: Chance;
}

/** The share of dead processes whose machine is gone too: nobody closes their connections. */
const MACHINE_GONE = 0.4;

/**
 * One store for all nodes of a world, in memory, with leases of the program: each node has its own `Database`
 * with its pool, its `Member` and its `PostgresNodes`, over rows and connections that are simulated.
 */
export class LeaseStore implements WorldStore {
  readonly isShared = true;
  readonly contents: SimulatedStore['contents'];
  readonly server: LeaseServer;
  readonly #memory: SimulatedStore;
  readonly #kernel: Kernel;
  readonly #chance: Chance;
  readonly #listener: StoreListener;
  readonly #clients = new Map<Life, LeaseClient[]>();
  #weather = FAIR;
  /** Where no message comes through: what goes on when it does again. */
  readonly #silences = new Map<
    Life | undefined,
    { readonly isOfAnswers: boolean; readonly held: (() => void)[] }
  >();
  /** Where connections are refused. */
  readonly #closed = new Set<Life | undefined>();

  constructor({ kernel, chance }: Parts, listener: StoreListener) {
    this.#memory = new SimulatedStore({ kernel, chance, isShared: true }, listener);
    this.contents = this.#memory.contents;
    this.#kernel = kernel;
    this.#chance = chance;
    this.#listener = listener;
    this.server = new LeaseServer({
      wire: {
        now: () => START + kernel.now,
        arrive: (delay, life, name, run) => kernel.arrive(delay, life, name, run),
      },
      contents: this.contents,
      fateOf: (what, operation) => this.#fateOf(what, operation),
    });
  }

  get weather(): Weather {
    return this.#weather;
  }

  set weather(weather: Weather) {
    this.#weather = weather;
    const { isAway, silentUntil } = weather;
    const isSilent = silentUntil > this.#kernel.now;
    if (isAway && !this.#closed.has(undefined)) this.#cutOff(undefined, { isSilent: false });
    if (isSilent && !this.#silences.has(undefined)) this.#cutOff(undefined, { isSilent: true });
    if (!isAway) this.#closed.delete(undefined);
    if (!isSilent) this.#letThrough(undefined);
  }

  get leases(): ReadonlyMap<number, unknown> {
    return this.contents.shared.members;
  }

  prepare(beginning: Beginning): void {
    this.#memory.prepare(beginning);
  }

  ledger() {
    return this.#memory.ledger();
  }

  areProfilesBehind(): boolean {
    return this.#memory.areProfilesBehind();
  }

  newSets() {
    return this.#memory.newSets();
  }

  cut(life: Life): void {
    this.#closed.delete(life);
    this.#letThrough(life);
    const isGone = this.#chance.is(MACHINE_GONE);
    const noticedAfter = this.#chance.magnitude(500, 60_000);
    const clients = this.#clients.get(life) ?? [];
    for (const client of clients) client.die(isGone, noticedAfter);
    if (isGone && clients.length > 0) this.#listener.reached?.('connections of a dead machine stayed');
    this.#clients.delete(life);
  }

  cutOff(life: Life, { lasts, ...how }: Omit<CutOff, 'kind' | 'node'>): void {
    this.#cutOff(life, how);
    this.#kernel.later(lasts, 'the way to the database is back', () => {
      this.#closed.delete(life);
      this.#letThrough(life);
    });
  }

  async open(life: Life, name: string, clock: Clock, onLost: () => void): Promise<OpenedStore> {
    const clients: LeaseClient[] = [];
    this.#clients.set(life, clients);
    const way = this.#wayOf(life);
    const made = (client: LeaseClient): void => void clients.push(client);
    const logger = {
      ...{ info: () => {}, warn: () => {} },
      error: (_: object, event: string) => {
        if (event === 'database.lease_lost') onLost();
      },
    };
    const url = 'postgres://simulated';
    const database = new Database({ url, logger, Client: clientsOf(this.server, { life, way, made }) });
    database.belongTo(INSTALLATION);
    const nodes = await PostgresNodes.join(database, { node: name, roles: NODE_ROLES, clock, logger });
    const { contents } = this;
    const ports = openLeasedPorts(
      { contents },
      { opening: () => database.process, adopt: () => nodes.adopt() },
    );
    const channel = new LeaseChannel(database, {
      ...{ life, listener: this.#listener },
      mayWrite: (process) => contents.shared.members.has(process),
      park: (operation, answer) => this.#memory.park(operation, answer),
    });
    return {
      store: {
        ...portsThrough(channel, ports),
        ...{ nodes, failed: nodes.failed, problems: () => nodes.problems() },
        sharedClock: await databaseClockMark(database, clock),
        identity: { id: INSTALLATION, keySecret: KEY_SECRET },
        ...{ format: 1, isBounded: true, backup: ports.backup },
        hasProfiles: () => this.#memory.profiles.states.size > 0,
        profilesPlace: () => ({ folder: '' }),
        stop: async () => {
          await nodes.stop(true);
          await database.stop();
        },
      },
      channel,
      nodes: {
        get opening() {
          return nodes.process;
        },
        maySend: nodes.maySend,
      },
      reader: () => openMemoryLogReader(contents),
      openProfiles: () => openMemoryProfiles(this.#memory.profiles),
    };
  }

  #wayOf(life: Life): Way {
    return {
      delayTo: (query) => this.#delayTo(query),
      delayBack: () => 0.02 + this.#chance.exponential(0.05 + this.#weather.latency * 0.05),
      isClosed: () => this.#closed.has(undefined) || this.#closed.has(life),
      holdsBack: (isAnswer, goOn) => {
        const silence = [this.#silences.get(undefined), this.#silences.get(life)].find(
          (one) => one !== undefined && (isAnswer || !one.isOfAnswers),
        );
        silence?.held.push(goOn);
        return silence !== undefined;
      },
      effect: (effect) => this.#took(life, effect),
    };
  }

  #delayTo(query: Query | undefined): number {
    const { latency } = this.#weather;
    const share = query === undefined ? 1 : shareOf(query);
    return 0.02 + this.#chance.exponential(share === 0 ? 0.05 : latency * share);
  }

  #fateOf(what: 'statement' | 'commit', operation: StoreOperation | undefined): Fate {
    const { refuses, refusesOnly, doubts, doubtsOnly } = this.#weather;
    const isMeant = refusesOnly === undefined || refusesOnly === operation?.name;
    const mayDoubt = doubtsOnly === undefined || doubtsOnly === operation?.name;
    if (what === 'statement' && isMeant && this.#chance.is(refuses))
      return this.#chance.is(0.3) ? 'broken' : 'refused';
    return mayDoubt && operation?.isDoubtable !== false && this.#chance.is(doubts) ? 'doubted' : 'well';
  }

  /** `life`: of one process; undefined: of all. */
  #cutOff(
    life: Life | undefined,
    { isSilent, isOfAnswers = false }: Pick<CutOff, 'isSilent' | 'isOfAnswers'>,
  ): void {
    if (isSilent) {
      if (!this.#silences.has(life)) this.#silences.set(life, { isOfAnswers, held: [] });
      return;
    }
    this.#closed.add(life);
    for (const [of, clients] of this.#clients)
      if (life === undefined || life === of) for (const client of clients) client.break();
  }

  #letThrough(life: Life | undefined): void {
    const { held = [] } = this.#silences.get(life) ?? {};
    this.#silences.delete(life);
    for (const goOn of held) goOn();
  }

  /** Tells of a statement as of the operation of a port. */
  #took(life: Life, { statement, values, rows, isDoubted }: Effect): void {
    const { applied, looked, reached } = this.#listener;
    if (statement === 'lease.take' && isDoubted && rows.length > 0) reached?.('lease taken in doubt');
    const told = OPERATIONS[statement];
    if (told === undefined) return;
    const answer = told.answer(rows as never);
    if (told.isRead === true) looked.call(this.#listener, told.name, answer, life);
    else
      applied.call(this.#listener, {
        ...{ operation: told.name, args: values, answer, life, isDoubted },
      });
  }
}

/** The part of the time of a write that a query takes; 0 where it is sent together with others. */
function shareOf({ name, text, values }: Query): number {
  if (text === 'commit') return 1;
  if (text.startsWith('begin') || text === 'rollback') return 0;
  if (name !== STORE_OPERATION) return name?.startsWith('lease.') === true ? 1 : 0.2;
  return READS.has((values[0] as StoreOperation).name) ? 0.4 : 0.2;
}

interface Told {
  readonly name: string;
  readonly isRead?: boolean;
  readonly answer: (rows: readonly never[]) => unknown;
}

/** Names of the memory store for the statements that promises and situations ask for. */
const OPERATIONS: Readonly<Record<string, Told>> = {
  'lease.take': { name: 'join', answer: ({ length }) => length },
  'adopt.park': { name: 'recoverOrphans', answer: ([row]) => (row as unknown as { n: number }).n },
  'probe.take': {
    name: 'takeProbe',
    answer: ([row]) => {
      const { taken, left } = row as unknown as { taken: boolean; left: number };
      return taken ? 0 : left;
    },
  },
  'node.erased_after': { name: 'erasedAfter', isRead: true, answer: (rows) => rows },
  'acknowledgement.to_wait_for': {
    ...{ name: 'toWaitFor', isRead: true },
    answer: (rows) =>
      (rows as unknown as { node: string | null }[]).map(({ node }) => ({ name: node ?? '' })),
  },
};

interface ChannelOptions {
  readonly life: Life;
  readonly listener: StoreListener;
  readonly park: (operation: string, answer: unknown) => void;
  readonly mayWrite: (process: number) => boolean;
}

/** The way of a process to the parts of the store that are in memory: by its connections, under its lease. */
export class LeaseChannel implements StoreChannel, StoreAsker {
  readonly underWay = new Map<string, number>();
  readonly #database: Database;
  readonly #options: ChannelOptions;

  constructor(database: Database, options: ChannelOptions) {
    this.#database = database;
    this.#options = options;
  }

  async ask<Answer>(
    operation: string,
    args: readonly unknown[],
    apply: () => Answer,
  ): Promise<Awaited<Answer>> {
    // It has statements of its own.
    if (operation === 'recoverOrphans') return await apply();
    this.#count(operation, 1);
    try {
      return await this.#ask(operation, args, apply);
    } finally {
      this.#count(operation, -1);
    }
  }

  async #ask<Answer>(
    operation: string,
    args: readonly unknown[],
    apply: () => Answer,
  ): Promise<Awaited<Answer>> {
    const { life, listener, park, mayWrite } = this.#options;
    const isWrite = !READS.has(operation);
    const { process } = this.#database;
    let isGivenUp = false;
    let ended: Parameters<StoreOperation['ended']>[0] | undefined;
    const asked: StoreOperation = {
      name: operation,
      isDoubtable: DOUBTFUL.has(operation),
      apply: async () => {
        // The store in memory would refuse it.
        if (isWrite && !mayWrite(process))
          listener.broken?.('writes are fenced', `${life.name} writes (${operation}) without its lease`);
        return await apply();
      },
      ended: (result, isDoubted) => {
        ended = result;
        if ('error' in result) return;
        const { answer } = result;
        if (isWrite) listener.applied({ operation, args, answer, life, isDoubted });
        else listener.looked(operation, answer, life);
        // A process must not hold what it does not know of.
        if (isGivenUp) park(operation, answer);
      },
    };
    const statement = { name: STORE_OPERATION, text: operation };
    try {
      if (isWrite) await this.#database.write((write) => write.rows(statement, [asked]));
      else await this.#database.read((read) => read.rows(statement, [asked]));
    } catch (error) {
      isGivenUp = true;
      if (ended === undefined) listener.refused(operation);
      else if ('answer' in ended) park(operation, ended.answer);
      throw error;
    }
    if (ended === undefined || 'error' in ended) throw ended?.error;
    return ended.answer as Awaited<Answer>;
  }

  #count(operation: string, by: number): void {
    this.underWay.set(operation, (this.underWay.get(operation) ?? 0) + by);
  }
}
