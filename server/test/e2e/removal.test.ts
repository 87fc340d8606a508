import { describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import { freePort, startReceiver } from '../support/receiver.ts';
import { sharedServer } from '../support/shared-server.ts';

const EVENTS = 30;

interface Ledger {
  readonly destinations: Record<string, { pending: number; dead: Record<string, number>; owed: number }>;
  readonly balanced: boolean;
}

const server = sharedServer(() => 'egress: { allow: [127.0.0.0/8] }');

/** A destination that is owed every event of its source, and where nothing listens. */
class Stage {
  /** Of the destination, of its source, and the write key. */
  readonly name: string;

  private constructor(name: string) {
    this.name = name;
  }

  static async set(name: string): Promise<Stage> {
    const stage = new Stage(name);
    await server.add('sources', { name, writeKeys: [name] });
    await stage.create(`http://127.0.0.1:${await freePort()}/in`);
    const batch = Array.from({ length: EVENTS }, (_, n) => track(`m${n}`));
    expect((await stage.send('batch', { batch })).status).toBe(200);
    await server.api.until<{ state: string; pending: number }>(
      `destinations/${name}/status`,
      ({ state, pending }) => state === 'failing' && pending === EVENTS,
    );
    return stage;
  }

  send(path: string, body: object): ReturnType<typeof send> {
    return send(server.url, `/v1/${path}`, body, { writeKey: this.name });
  }

  create(endpoint: string): Promise<void> {
    const { name } = this;
    const settings = { endpoints: [{ url: endpoint }] };
    return server.add('destinations', { name, type: 'webhooks', sources: [name], settings });
  }

  /** The removal is confirmed; it would be refused otherwise. */
  async remove(): Promise<void> {
    const path = `destinations/${this.name}`;
    expect(await server.api.ask('DELETE', path)).toMatchObject({
      status: 409,
      answer: {
        code: 'confirmation_needed',
        errors: [{ path: `destinations "${this.name}"`, message: `is still owed ${EVENTS} deliveries` }],
      },
    });
    expect((await server.api.ask('DELETE', `${path}?confirm=true`)).status).toBe(204);
  }

  async expectGivenUp(): Promise<void> {
    const { destinations, balanced } = await server.api.until<Ledger>(
      'ledger',
      (ledger) => ledger.destinations[this.name]?.pending === 0,
    );
    expect(destinations[this.name]).toMatchObject({ owed: EVENTS, dead: { no_endpoint: EVENTS } });
    expect(balanced).toBe(true);
  }
}

/** Deliveries still owed to a destination are given up when it is removed, in every state. */
describe('a destination that is removed with a backlog', { concurrent: true }, () => {
  it('leaves dead letters when its breaker is open, and they go to the one that comes in its place', async () => {
    const stage = await Stage.set('broken');
    await server.program.saw(/^(?=.*"destination":"broken").*"breaker":"open"/m);
    await stage.remove();
    await stage.expectGivenUp();
    const receiver = await startReceiver();
    await stage.create(receiver.url);
    const { answer } = await server.api.ask('POST', 'redeliveries', { destination: 'broken' });
    expect(answer).toMatchObject({ count: EVENTS });
    await receiver.count(EVENTS);
    await stage.send('track', track('new'));
    await receiver.count(EVENTS + 1);
    await receiver.stop();
  });

  it.each([
    ['disabled', { enabled: false }],
    ['paused', { paused: true }],
  ])('leaves dead letters when it is %s, which needs no confirmation', async (state, patch) => {
    const stage = await Stage.set(state);
    const path = `destinations/${state}`;
    expect((await server.api.ask('PATCH', path, patch)).status).toBe(200);
    await server.api.until<{ state: string }>(`${path}/status`, (shown) => shown.state === state);
    await stage.remove();
    await stage.expectGivenUp();
  });
});

describe('a destination that is removed with a backlog at the end of a server', () => {
  it('leaves dead letters when the server is killed right after', async () => {
    const stage = await Stage.set('left');
    await stage.remove();
    await server.program.kill();
    await server.start();
    await stage.expectGivenUp();
  });
});
