import type { Destination } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import type { Plan, SkipReason } from '../model/plan.ts';
import type { Source } from '../model/source.ts';
import { integrationsOf, isEnabledBy } from './integrations.ts';

/**
 * Plans events: made before the commit, so that what is owed is a fact of the same commit and a restart never plans again
 * with other settings. The destinations of each source are looked up once per version of the settings, not per event.
 */
export class Routes {
  readonly #bySource = new Map<string, readonly Destination[]>();
  readonly #typeNames: Readonly<Record<Destination['type'], string>>;

  /** `typeNames`: the name of each type in an integrations object, such as `Webhooks`. */
  constructor(
    destinations: readonly Destination[],
    typeNames: Readonly<Record<Destination['type'], string>>,
  ) {
    this.#typeNames = typeNames;
    for (const destination of destinations) {
      for (const source of destination.sources) {
        this.#bySource.set(source, [...(this.#bySource.get(source) ?? []), destination]);
      }
    }
  }

  plan(event: Event, source: Source): Plan {
    const connected = this.#bySource.get(source.name) ?? [];
    const integrations = integrationsOf(event);
    const owed: Destination[] = [];
    const skipped: { destination: Destination; reason: SkipReason }[] = [];
    for (const destination of connected) {
      const reason = this.#reasonToSkip(destination, integrations);
      if (reason === undefined) owed.push(destination);
      else skipped.push({ destination, reason });
    }
    return { owed, skipped };
  }

  #reasonToSkip(destination: Destination, integrations: Event['integrations']): SkipReason | undefined {
    if (!destination.enabled) return 'destination_disabled';
    const enabled = isEnabledBy(integrations, destination.name, this.#typeNames[destination.type]);
    return enabled ? undefined : 'integrations';
  }
}
