import { identityHash, keyHash } from '../../src/adapters/encoding/hashes.ts';
import type { SystemClock } from '../../src/adapters/system/clock.ts';
import { wallClockStore } from '../../src/adapters/system/wall-clock-store.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { ClockMark, ClockStep } from '../../src/ports/clock.ts';
import type { Logger, LogLevel } from '../../src/ports/logger.ts';
import type { TimelineStore } from '../../src/ports/timeline-store.ts';
import type { StartUsersThread } from '../../src/users/client.ts';
import { Computations } from '../../src/users/computation/computations.ts';
import { createProcessor } from '../../src/users/processor.ts';
import { serveMessages, UsersService } from '../../src/users/service.ts';
import { type Outside, type Pipeline, startPipeline } from '../../src/wiring/pipeline.ts';
import { SettingsService } from '../../src/wiring/settings-service.ts';
import { type Kernel, type Life, newLife, START } from './kernel.ts';
import type { Network } from './network.ts';
import { Chance } from './random.ts';
import type { Scenario } from './scenario.ts';
import type { OpenedStore, WorldStore } from './world-store.ts';

/** The clocks of one machine. */
export class NodeClock implements SystemClock {
  readonly #kernel: Kernel;
  readonly #skew: number;
  #steps: readonly ClockStep[];

  /**
   * @param skew by how much its monotonic clock is ahead of those of others
   * @param ahead by how much its wall clock is ahead of that
   */
  constructor(kernel: Kernel, skew: number, ahead: number) {
    this.#kernel = kernel;
    this.#skew = skew;
    this.#steps = [{ at: START - 86_400_000, ahead }];
  }

  readonly monotonic = () => Math.floor(START + this.#kernel.now + this.#skew);
  readonly now = () => Math.floor(START + this.#kernel.now + this.#skew + this.#steps.at(-1)!.ahead);
  readonly steps = () => this.#steps;
  readonly after = (delay: number, wake: () => void) => this.#kernel.after(delay, 'wake', wake);
  readonly turn = (run: () => void) => void this.#kernel.after(0.001, 'turn', run);
  readonly elapsed = () => this.#kernel.now;
  readonly mark = (): ClockMark => ({ now: this.now(), monotonic: this.monotonic(), steps: this.#steps });

  /** Somebody sets the wall clock. */
  set(by: number): void {
    const { ahead } = this.#steps.at(-1)!;
    this.#steps = [...this.#steps.slice(-99), { at: this.monotonic(), ahead: ahead + by }];
  }
}

export interface NodeWorld {
  readonly seed: number;
  readonly scenario: Pick<Scenario, 'clocksAhead'>;
  readonly kernel: Kernel;
  readonly network: Network;
  readonly store: WorldStore;
  readonly hasProfiles: boolean;
  ready(node: ServerNode): void;
  lostLease(node: ServerNode): void;
  /** A line of a node's log. */
  logged(node: ServerNode, level: LogLevel, event: string, facts: object): void;
  /** A node cannot start, for a reason that no fault of the store explains. */
  startFailed(node: ServerNode, error: unknown): void;
}

/** Pause before a node whose start has failed is started again. */
const START_AGAIN = 2000;
/** The longest time that a node may take to stop before it is killed. */
const STOP_WITHIN = 90_000;

/** One server of the world: its process lives, dies and is started again. */
export class ServerNode {
  readonly place: number;
  readonly clock: NodeClock;
  life: Life;
  isReady = false;
  /** The last lease that it heard to be lost. */
  lostLease: string | undefined;
  /** Steps of this node until it dies. */
  dyingIn: number | undefined;
  /** It dies when this is done in the store, and so many steps later. */
  dyingBehind: { readonly operation: string; readonly steps: number } | undefined;
  downFor = 0;
  /** Steps until it dies again after its next start. */
  againAfter: number | undefined;
  pipeline!: Pipeline;
  /** Of this life: those of the pipeline are those of the last one until it is ready. */
  settings!: SettingsService;
  opened: OpenedStore | undefined;
  readonly #world: NodeWorld;
  readonly #chance: Chance;
  #lives = 0;
  #parts: { stop(): void | Promise<void> }[] = [];

  constructor(world: NodeWorld, place: number) {
    this.#world = world;
    this.place = place;
    this.#chance = new Chance(world.seed, `node ${place}`);
    const skew = world.store.isShared ? Math.round(this.#chance.between(-20, 20)) : 0;
    const ahead = world.scenario.clocksAhead?.[place] ?? this.#chance.between(-5000, 5000);
    this.clock = new NodeClock(world.kernel, skew, Math.round(ahead));
    this.life = newLife(`n${place}.0`);
    this.life.isOver = true;
  }

  get name(): string {
    return `node${this.place}`;
  }

  /** Tells its leases from each other; the process without one. */
  get lease(): string {
    return `${this.life.name} ${this.opened?.nodes?.opening ?? ''}`;
  }

  start(): void {
    const life = newLife(`n${this.place}.${++this.#lives}`);
    this.life = life;
    this.isReady = false;
    this.opened = undefined;
    this.#parts = [];
    this.#world.kernel.note('start', life.name);
    this.dyingIn = this.againAfter;
    this.againAfter = undefined;
    this.#world.kernel.as(life, () => {
      this.#boot(life).catch((error: unknown) => {
        if (life.isOver) return;
        this.#world.startFailed(this, error);
        this.die(START_AGAIN);
      });
    });
  }

  /** SIGKILL. It is started again after so long. */
  die(downFor: number): void {
    this.life.isOver = true;
    this.isReady = false;
    this.dyingIn = undefined;
    this.dyingBehind = undefined;
    this.#world.store.cut(this.life);
    this.#world.kernel.note('death', this.life.name);
    this.#world.kernel.later(downFor, 'start', () => this.start());
  }

  /** SIGTERM. */
  stop(downFor: number): void {
    const { life } = this;
    this.isReady = false;
    this.#world.kernel.note('stop', life.name);
    const end = () => {
      if (!life.isOver) this.die(downFor);
    };
    this.#world.kernel.later(STOP_WITHIN, 'stop took too long', end);
    this.#world.kernel.as(life, () => void this.#stopParts().then(end, end));
  }

  async #stopParts(): Promise<void> {
    while (this.#parts.length > 0) await this.#parts.pop()!.stop();
  }

  async #boot(life: Life): Promise<void> {
    const { store: shared, kernel, hasProfiles } = this.#world;
    const opened = await shared.open(life, this.name, this.clock, () => this.#world.lostLease(this));
    this.opened = opened;
    const { store } = opened;
    this.#parts.push(store);
    const logger = this.#logger();
    const settings = new SettingsService(store.settings, await store.settings.load());
    this.settings = settings;
    const started = {
      add: <Part extends { stop(): void | Promise<void> }>(part: Part): Part => {
        this.#parts.push(part);
        return part;
      },
    };
    const storeView = wallClockStore(store, this.clock);
    const config = configOf(shared.isShared, hasProfiles);
    const outside = this.#outside(life, opened, logger);
    this.pipeline = await startPipeline(
      { store, storeView, clock: this.clock, settings, config, options: { logger }, outside },
      started,
    );
    this.isReady = true;
    kernel.note('ready', life.name);
    this.#world.ready(this);
  }

  #outside(life: Life, opened: OpenedStore, logger: Logger): Outside {
    const { network } = this.#world;
    const ids = new Chance(this.#world.seed, life.name);
    let made = 0;
    return {
      httpClient: network.clientOf(life),
      mailer: { send: async () => ({ kind: 'taken', answer: '250' }) },
      startUsersThread: this.#usersThread(life, opened, logger),
      busyShare: () => 0,
      timelineStore: NO_TIMELINE,
      disk: async () => undefined,
      endpointProblems: async () => [],
      random: this.#chance.next,
      newId: () => `${life.name}-${(++made).toString().padStart(6, '0')}-${ids.text(6)}`,
    };
  }

  /** The thread of profiles, in the thread of the world: messages keep their order, and take a moment. */
  #usersThread(life: Life, opened: OpenedStore, logger: Logger): StartUsersThread {
    const { kernel } = this.#world;
    const { clock } = this;
    return ({ settings, isPaused }) => {
      const reader = opened.reader();
      const hash = identityHash(keyHash(opened.store.identity.keySecret));
      let heard: (message: never) => void = () => {};
      const toMain = messages(kernel, life, (message) => heard(message as never));
      const service = new UsersService({
        open: () => {
          const profiles = opened.openProfiles();
          const computations = new Computations({ reader, clock });
          const processor = createProcessor({ store: profiles, reader, hash, clock, logger, computations });
          return { store: profiles, processor };
        },
        replace: () => {
          throw new Error('nothing takes the place of the profiles of a world');
        },
        ...{ settings, reader, clock, logger },
        processorTime: () => 0,
        report: (progress) => toMain({ kind: 'progress', progress }),
        ...(isPaused && { isPaused }),
      });
      const ended = Promise.withResolvers<void>();
      void service.run().then(ended.resolve);
      return {
        post: messages(kernel, life, serveMessages(service, toMain)),
        listen: (listener) => {
          heard = listener.heard as never;
          void ended.promise.then(() => listener.ended('it has come to its end'));
        },
      };
    };
  }

  #logger(): Logger {
    const at = (level: LogLevel) => (facts: object, event: string) =>
      this.#world.logged(this, level, event, facts);
    return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  }
}

/** Carries messages to the other end of a channel between threads, in their order. */
function messages<Message>(
  kernel: Kernel,
  life: Life,
  take: (message: Message) => void,
): (message: Message) => void {
  const waiting: Message[] = [];
  return (message) => {
    waiting.push(structuredClone(message));
    if (waiting.length > 1) return;
    kernel.arrive(0.05, life, 'message', () => {
      for (const one of waiting.splice(0)) take(one);
    });
  };
}

const NO_TIMELINE: TimelineStore = {
  append: async () => {},
  async *read() {},
  forgetBefore: async () => {},
};

const CONFIGS = new Map<string, ReturnType<typeof loadConfig>['config']>();

function configOf(isShared: boolean, hasProfiles: boolean) {
  const key = `${isShared} ${hasProfiles}`;
  let config = CONFIGS.get(key);
  if (config === undefined) {
    const text = `profiles: ${hasProfiles ? 'on' : 'off'}\n`;
    const flags = isShared ? { database: 'postgres://simulated' } : {};
    const file = { path: 'millrace.yaml', text };
    config = loadConfig({ file, env: {}, flags, defaults: { host: '127.0.0.1' } }).config;
    CONFIGS.set(key, config);
  }
  return config;
}
