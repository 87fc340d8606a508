import { Check } from './form-fields.tsx';

interface JsonSwitchProps {
  readonly isJson: boolean;
  readonly onChange: (isJson: boolean) => void;
}

/** Beside a field for ids: what stands in it is JSON text, which can carry every id. Nothing is guessed from quotes. */
export function JsonSwitch({ isJson, onChange }: JsonSwitchProps) {
  return (
    <Check isChecked={isJson} onChange={onChange}>
      as JSON text
    </Check>
  );
}
