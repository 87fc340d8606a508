import { afterAll, beforeAll, expect } from 'vitest';
import { ControlApi } from './control-api.ts';
import { adminTokenOf, makePlace, type Place, type Program, startServer } from './program.ts';

/**
 * The server of all tests of a file or `describe`: a start costs as much as hundreds of requests. Where tests
 * would see each other's events, each adds records of its own. A test may stop or kill the program, and
 * starts it again for those behind it.
 */
export class SharedServer {
  place!: Place;
  program!: Program;
  readonly api = new ControlApi(() => ({ url: this.url, token: adminTokenOf(this.place) }));

  get url(): string {
    return this.program.url;
  }

  async start(): Promise<void> {
    this.program = await startServer(this.place);
  }

  /** Adds a record over the control API. */
  async add(kind: 'sources' | 'destinations', record: object): Promise<void> {
    const { status, answer } = await this.api.ask<object>('POST', kind, record);
    expect([status, answer]).toEqual([201, expect.anything()]);
  }

  /** Adds a source, and a destination of the same name that it sends to. */
  async connect(name: string, endpoints: readonly string[], settings: object = {}): Promise<void> {
    await this.add('sources', { name, writeKeys: [name] });
    await this.add('destinations', {
      ...{ name, type: 'webhooks', sources: [name] },
      settings: { endpoints: endpoints.map((url) => ({ url })), ...settings },
    });
  }
}

/** `yaml` is asked for before the first test: what a `beforeAll` above has started may be in it. */
export function sharedServer(yaml: () => string): SharedServer {
  const server = new SharedServer();
  beforeAll(async () => {
    server.place = makePlace(yaml());
    await server.start();
  });
  afterAll(async () => {
    // Neither is there after a start that failed, whose reason is what should be read.
    await server.program?.kill();
    server.place?.remove();
  });
  return server;
}
