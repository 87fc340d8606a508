import { afterAll, describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import { makePlace, type Place, type Program, startProgram } from '../support/program.ts';
import { freePort, startReceiver } from '../support/receiver.ts';

const EVENTS = 30;

interface Ledger {
  readonly destinations: Record<string, { pending: number; dead: Record<string, number>; owed: number }>;
  readonly balanced: boolean;
}

const stages: Stage[] = [];

afterAll(() => Promise.all(stages.map((stage) => stage.end())));

/** A server with a destination `crm` that is owed every event and where nothing listens. */
class Stage {
  #program: Program;
  readonly #place: Place;
  readonly api = new ControlApi(() => ({ url: this.url, token: 't0ken' }));

  private constructor(program: Program, place: Place) {
    this.#program = program;
    this.#place = place;
    stages.push(this);
  }

  static async set(): Promise<Stage> {
    const place = makePlace(
      JSON.stringify({
        ...{ port: 0, host: '127.0.0.1', admin: { token: 't0ken' }, egress: { allow: ['127.0.0.0/8'] } },
        sources: [{ name: 'website', writeKeys: ['wk'] }],
      }),
    );
    const stage = new Stage(await Stage.#start(place), place);
    await stage.create(`http://127.0.0.1:${await freePort()}/in`);
    const batch = Array.from({ length: EVENTS }, (_, n) => track(`m${n}`));
    expect((await send(stage.url, '/v1/batch', { batch })).status).toBe(200);
    await stage.api.until<{ state: string; pending: number }>(
      'destinations/crm/status',
      ({ state, pending }) => state === 'failing' && pending === EVENTS,
    );
    return stage;
  }

  static #start({ config, data }: Place): Promise<Program> {
    return startProgram({ args: ['start', '--config', config, '--data', data] });
  }

  get url(): string {
    return this.#program.url;
  }

  saw(pattern: RegExp): Promise<unknown> {
    return this.#program.saw(pattern);
  }

  async killAndStart(): Promise<void> {
    await this.#program.kill();
    this.#program = await Stage.#start(this.#place);
  }

  async end(): Promise<void> {
    await this.#program.kill();
    this.#place.remove();
  }

  async create(endpoint: string): Promise<void> {
    const settings = { endpoints: [{ url: endpoint }] };
    const made = { name: 'crm', type: 'webhooks', sources: ['website'], settings };
    expect((await this.api.ask('POST', 'destinations', made)).status).toBe(201);
  }

  /** The removal is confirmed; it would be refused otherwise. */
  async remove(): Promise<void> {
    expect(await this.api.ask('DELETE', 'destinations/crm')).toMatchObject({
      status: 409,
      answer: {
        code: 'confirmation_needed',
        errors: [{ path: 'destinations "crm"', message: `is still owed ${EVENTS} deliveries` }],
      },
    });
    expect((await this.api.ask('DELETE', 'destinations/crm?confirm=true')).status).toBe(204);
  }

  async expectGivenUp(): Promise<void> {
    const { destinations, balanced } = await this.api.until<Ledger>(
      'ledger',
      (ledger) => ledger.destinations['crm']?.pending === 0,
    );
    expect(destinations['crm']).toMatchObject({ owed: EVENTS, dead: { no_endpoint: EVENTS } });
    expect(balanced).toBe(true);
  }
}

/** Deliveries still owed to a destination are given up when it is removed, in every state. */
describe('a destination that is removed with a backlog', { concurrent: true }, () => {
  it('leaves dead letters when its breaker is open, and they go to the one that comes in its place', async () => {
    const stage = await Stage.set();
    await stage.saw(/"breaker":"open"/);
    await stage.remove();
    await stage.expectGivenUp();
    const receiver = await startReceiver();
    await stage.create(receiver.url);
    const { answer } = await stage.api.ask('POST', 'redeliveries', { destination: 'crm' });
    expect(answer).toMatchObject({ count: EVENTS });
    await receiver.count(EVENTS);
    await send(stage.url, '/v1/track', track('new'));
    await receiver.count(EVENTS + 1);
    await receiver.stop();
  });

  it.each([
    ['disabled', { enabled: false }],
    ['paused', { paused: true }],
  ])('leaves dead letters when it is %s, which needs no confirmation', async (state, patch) => {
    const stage = await Stage.set();
    expect((await stage.api.ask('PATCH', 'destinations/crm', patch)).status).toBe(200);
    await stage.api.until<{ state: string }>('destinations/crm/status', (shown) => shown.state === state);
    await stage.remove();
    await stage.expectGivenUp();
  });

  it('leaves dead letters when the server is killed right after', async () => {
    const stage = await Stage.set();
    await stage.remove();
    await stage.killAndStart();
    await stage.expectGivenUp();
  });
});
