import type { ComponentType } from 'react';
import type { Tagged } from '../../api/client.ts';
import type { Destination } from './form.ts';
import { PlainSettings } from './plain-settings.tsx';
import { SettingsForm } from './settings-form.tsx';

type TypeForm = ComponentType<{ readonly stored: Tagged<Destination> }>;

/** The forms of types that have one of their own, by name. */
const FORMS: ReadonlyMap<string, TypeForm> = new Map([['webhooks', SettingsForm]]);

/** The form of a type; a plain one is drawn for any other. */
export function formOfType(type: string): TypeForm {
  return FORMS.get(type) ?? PlainSettings;
}
