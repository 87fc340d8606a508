import { type Destination, lanesOf } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import type { Plan, SkipReason } from '../model/plan.ts';
import type { Source } from '../model/source.ts';
import { passes } from './filter.ts';
import { integrationsOf, isEnabledBy } from './integrations.ts';

/** A destination as it is planned for: looked at once per version of the settings, not per event. */
interface Route {
  readonly destination: Destination;
  readonly lanes: readonly Destination[];
  readonly passes: (event: Event) => boolean;
  readonly isFiltered: boolean;
}

/**
 * Plans events: made before the commit, so that what is owed is a fact of the same commit and a restart never plans again
 * with other settings. The destinations of each source are looked up once per version of the settings, not per event.
 */
export class Routes {
  readonly #bySource = new Map<string, readonly Route[]>();
  /** Plans that are the same for most events of a source, by its name. */
  readonly #common = new Map<string, Plan | undefined>();
  readonly #typeNames: Readonly<Record<Destination['type'], string>>;

  /** `typeNames`: the name of each type in an integrations object, such as `Webhooks`. */
  constructor(
    destinations: readonly Destination[],
    typeNames: Readonly<Record<Destination['type'], string>>,
  ) {
    this.#typeNames = typeNames;
    for (const destination of destinations) {
      const route = {
        destination,
        lanes: lanesOf(destination),
        passes: passes(destination.settings.filter),
        isFiltered: destination.settings.filter !== undefined,
      };
      for (const source of destination.sources) {
        this.#bySource.set(source, [...(this.#bySource.get(source) ?? []), route]);
      }
    }
  }

  /** Whether any destination takes events of this source. */
  reaches(source: Source): boolean {
    return this.#bySource.has(source.name);
  }

  /**
   * The plan of every event of a source that says nothing of integrations; undefined when it depends on the event, because
   * a destination has a filter.
   */
  commonPlan(source: Source): Plan | undefined {
    const { name } = source;
    if (!this.#common.has(name)) {
      const isFiltered = this.#bySource.get(name)?.some((route) => route.isFiltered) ?? false;
      this.#common.set(name, isFiltered ? undefined : this.#planOf(name, {}, () => true));
    }
    return this.#common.get(name);
  }

  plan(event: Event, source: Source): Plan {
    return this.#planOf(source.name, integrationsOf(event), (route) => route.passes(event));
  }

  #planOf(source: string, integrations: Event['integrations'], passes: (route: Route) => boolean): Plan {
    const connected = this.#bySource.get(source) ?? [];
    const owed: Destination[] = [];
    const skipped: { destination: Destination; reason: SkipReason }[] = [];
    for (const route of connected) {
      const reason = this.#reasonToSkip(route, integrations, passes);
      if (reason !== undefined) skipped.push({ destination: route.destination, reason });
      else for (const lane of route.lanes) owed.push(lane);
    }
    return { owed, skipped };
  }

  /** The first that applies, from the destination itself to the event: an event is skipped for one reason. */
  #reasonToSkip(
    route: Route,
    integrations: Event['integrations'],
    passes: (route: Route) => boolean,
  ): SkipReason | undefined {
    const { enabled, name, type } = route.destination;
    if (!enabled) return 'destination_disabled';
    if (!isEnabledBy(integrations, name, this.#typeNames[type])) return 'integrations';
    return passes(route) ? undefined : 'filtered';
  }
}
