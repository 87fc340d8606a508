import { Check } from './form-fields.tsx';

interface JsonSwitchProps {
  readonly isJson: boolean;
  readonly onChange: (isJson: boolean) => void;
}

/** Switch beside a field for ids: the text is JSON, which can carry every id. Quotes alone mean nothing. */
export function JsonSwitch({ isJson, onChange }: JsonSwitchProps) {
  return (
    <Check isChecked={isJson} onChange={onChange}>
      as JSON text
    </Check>
  );
}
