import { RETRY_WINDOW } from '../../src/model/delivery.ts';
import { recordSwitch } from '../../src/model/pause.ts';
import type { Replay } from '../../src/model/replay.ts';
import type { AudienceRecord } from '../../src/model/settings.ts';
import { SECOND } from '../../src/model/time.ts';
import type { SettingsChanges, SettingsSnapshot } from '../../src/ports/settings-store.ts';
import type { Kernel } from './kernel.ts';
import type { ServerNode } from './node.ts';
import { BUYERS } from './promises/profiles.ts';
import type { PauseTime, WorldView } from './promises/promise.ts';
import { Chance } from './random.ts';

/** An operator waits so long for an answer, and tries so often. */
const PATIENCE = 15 * SECOND;
const AGAIN_AFTER = 500;
const MOST_TRIES = 2000;
/** Share of the operators who take an error for an answer. */
const GIVING_UP = 0.3;

/** Operators pause, change, delete and replay, each until it is done. */
export class Operators {
  /** By the id of the destination. */
  readonly pauses = new Map<number, PauseTime[]>();
  readonly deletedUsers = new Set<string>();
  /** Users who are or may be suppressed. */
  readonly suppressedUsers = new Set<string>();
  readonly #world: WorldView;
  readonly #kernel: Kernel;
  readonly #chance: Chance;
  /** By destination: the newest wish counts, also where an older one is still tried. */
  readonly #wishes = new Map<number, boolean>();

  constructor(world: WorldView) {
    this.#world = world;
    this.#kernel = world.kernel;
    this.#chance = new Chance(world.scenario.seed, 'operators');
  }

  /** Pauses or resumes a destination. */
  switch(destination: number, isPaused: boolean): void {
    this.#wishes.set(destination, isPaused);
    this.#noteSwitch(destination, isPaused);
    this.#untilDone(
      async ({ pipeline, clock }) => {
        let wish = isPaused;
        await pipeline.settings.change((now) => {
          // The newest, also where this is asked again long after somebody else has changed the settings.
          wish = this.#wishes.get(destination)!;
          const { record, pauses } = recordOf(now, destination);
          const at = clock.monotonic();
          const past = recordSwitch(pauses ?? [], { isServed: !wish, at, window: RETRY_WINDOW });
          return changeOf({ ...record, paused: wish, pauses: past });
        });
        return wish;
      },
      { done: (wish) => this.#switched(destination, wish) },
    );
  }

  /** Changes the headers of a destination: a new version of its settings. */
  change(destination: number): void {
    this.#untilDone(async ({ pipeline }) => {
      await pipeline.settings.change((now) => {
        const { record, version } = recordOf(now, destination);
        const settings = record.settings as { endpoints: { url: string; headers: object }[] };
        const endpoints = settings.endpoints.map((one) => ({
          ...one,
          headers: { 'X-Version': String(version) },
        }));
        return changeOf({ ...record, settings: { ...settings, endpoints } });
      });
    });
  }

  /** Changes who is in an audience. */
  changeAudience(): void {
    const needed = 2 + this.#chance.below(3);
    this.#untilDone(async ({ pipeline }) => {
      await pipeline.settings.change(({ audiences }) => {
        const { id: _id, version: _version, ...record } = audiences.find(({ name }) => name === BUYERS)!;
        const definition = { ...record.definition, to: needed } as AudienceRecord['definition'];
        const text = record.text.replace(/\d+$/, String(needed));
        return { sources: [], destinations: [], audiences: [{ ...record, definition, text }], audit: [] };
      });
    });
  }

  delete(user: string): void {
    this.deletedUsers.add(user);
    this.suppressedUsers.add(user);
    const mayGiveUp = this.#chance.is(GIVING_UP);
    this.#untilDone(
      async ({ pipeline }) => {
        await pipeline.regulations.create({
          ...{ type: 'SUPPRESS_WITH_DELETE', userIds: [user], anonymousIds: [], by: 'operator' },
        });
      },
      { mayGiveUp },
    );
  }

  /** Suppresses a user for a while. */
  suppress(user: string, lasts: number): void {
    const mayGiveUp = this.#chance.is(GIVING_UP);
    const of = (type: 'SUPPRESS_ONLY' | 'UNSUPPRESS', done: () => void) =>
      this.#untilDone(
        async ({ pipeline }) => {
          await pipeline.regulations.create({ type, userIds: [user], anonymousIds: [], by: 'operator' });
        },
        { done, mayGiveUp: mayGiveUp && type === 'SUPPRESS_ONLY' },
      );
    this.suppressedUsers.add(user);
    of('SUPPRESS_ONLY', () =>
      this.#kernel.later(lasts, 'lift a suppression', () => {
        // Whoever was deleted may come back from here on.
        this.deletedUsers.delete(user);
        of('UNSUPPRESS', () => this.#world.reached('suppression lifted'));
      }),
    );
  }

  /** Replays the events of the last while to a destination. */
  replay(destination: number, back: number): void {
    this.#startReplay(destination, (now) => ({ from: now - back, to: now }));
  }

  /** Revives the dead letters of a destination. */
  redeliver(destination: number): void {
    this.#startReplay(destination, (now, monotonic) => ({
      ...{ from: 0, to: now, redelivers: { state: 'dead', before: monotonic } },
    }));
  }

  #startReplay(
    destination: number,
    wanted: (now: number, monotonic: number) => Pick<Replay, 'from' | 'to' | 'redelivers'>,
  ): void {
    let id: string | undefined;
    this.#untilDone(async ({ pipeline, clock, life }) => {
      id ??= `r-${life.name}-${this.#chance.text(8)}`;
      const made: Replay = {
        ...{ id, destination: `d${destination}`, rate: 100, state: 'running', by: 'operator' },
        ...{ preview: { count: 0, deliveries: 0, bytes: 0, isExact: true }, createdAt: clock.now() },
        ...wanted(clock.now(), clock.monotonic()),
      };
      await pipeline.settings.change(({ replays }) => ({
        ...{ sources: [], destinations: [] },
        replays: replays.some((one) => one.id === made.id) ? [] : [made],
      }));
    });
  }

  /** Tries on one node after the other until it has worked. `mayGiveUp`: until there is an answer. */
  #untilDone<Done>(
    work: (node: ServerNode) => Promise<Done>,
    how: { readonly done?: (answer: Done) => void; readonly mayGiveUp?: boolean } = {},
    tries = 0,
  ): void {
    const kernel = this.#kernel;
    let isOver = false;
    const again = () => {
      if (isOver) return;
      isOver = true;
      if (tries < MOST_TRIES)
        kernel.later(AGAIN_AFTER, 'operator tries again', () => this.#untilDone(work, how, tries + 1));
    };
    const node = this.#chance.of(this.#world.nodes);
    if (!node.isReady || node.life.isOver) {
      again();
      return;
    }
    kernel.later(PATIENCE, 'operator waits no more', again);
    kernel.as(node.life, () => {
      work(node).then(
        (answer) => {
          if (isOver) return;
          isOver = true;
          how.done?.(answer);
        },
        how.mayGiveUp === true
          ? () => {
              isOver = true;
            }
          : again,
      );
    });
  }

  /** Until it is done, the wish counts as a pause: nothing is promised of such a time. */
  #noteSwitch(destination: number, isPaused: boolean): void {
    const all = this.pauses.get(destination) ?? [];
    this.pauses.set(destination, all);
    if (isPaused && (all.length === 0 || all.at(-1)!.to !== undefined)) all.push({ from: this.#kernel.now });
  }

  #switched(destination: number, isPaused: boolean): void {
    const last = this.pauses.get(destination)?.at(-1);
    if (!isPaused && last !== undefined) last.to ??= this.#kernel.now;
    if (isPaused) this.#noteSwitch(destination, true);
  }
}

function recordOf({ destinations }: SettingsSnapshot, id: number) {
  const found = destinations.find((one) => one.id === id)!;
  const { id: _id, version, ...record } = found;
  return { record, version, pauses: found.pauses };
}

function changeOf(destination: SettingsChanges['destinations'][number]): SettingsChanges {
  return { sources: [], destinations: [destination], audit: [] };
}
