import { expect } from 'vitest';
import { PASS } from '../../server/test/support/fault-proxy.ts';
import { type ClientOptions, type Driver, type Library, startDriver } from './library.ts';
import { startWorld, type World } from './world.ts';

/** Waits between tries are shortened so much that ten of them take two seconds. */
const QUICK = { waitScale: 0.01 };

/** One library in a world of its own: a client for each test, with message ids no other test uses. */
export class Trial {
  readonly #library: Library;
  #world: World | undefined;
  #driver: Driver | undefined;
  #tests = 0;
  prefix = '';

  constructor(library: Library) {
    this.#library = library;
  }

  get world(): World {
    return this.#world!;
  }

  async begin(): Promise<void> {
    this.#world = await startWorld();
  }

  async end(): Promise<void> {
    await this.#world?.stop();
  }

  /** The network is well again, and a new client speaks over it. */
  async start(options: ClientOptions = {}, env: Readonly<Record<string, string>> = {}): Promise<Driver> {
    this.prefix = `t${++this.#tests}-`;
    this.world.proxy.useConnections(() => 'accept');
    this.world.proxy.use(() => PASS);
    const all = { writeKey: 'wk', endpoint: this.world.proxy.url, ...QUICK, ...options };
    this.#driver = await startDriver(this.#library, all, env);
    expect(this.#driver.ready, this.#driver.log()).toMatchObject({ ready: true });
    return this.#driver;
  }

  /** Ends the client as a program that just ends, and looks whether anything in it went wrong. */
  async finish(): Promise<void> {
    expect(await this.#driver!.end()).toBe(0);
    // The exit code does not always tell of a data race of Go or of an uncaught error.
    expect(this.#driver!.log()).not.toMatch(/DATA RACE|panic:|Unhandled|TypeError/);
  }

  /** This many calls at once, with ids that count from `from`. */
  calls(client: Driver, count: number, from = 0) {
    return Promise.all(
      Array.from({ length: count }, (_, n) => {
        const messageId = `${this.prefix}${from + n}`;
        return client.call('track', { userId: 'u1', event: 'E', messageId, properties: { n } });
      }),
    );
  }
}
