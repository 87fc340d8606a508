import type { Destination } from '../model/destination.ts';
import type { SettingsSnapshot } from '../ports/settings.ts';
import { Problem } from './problem.ts';

export function destinationNamed(name: string, { destinations }: SettingsSnapshot): Destination {
  const destination = destinations.find((one) => one.name === name);
  if (destination !== undefined) return destination;
  const hint = `${JSON.stringify(name)} is no destination; GET /api/v1/destinations lists them.`;
  throw new Problem('unknown_name', { hint });
}
