package chattemplate

// ChatML is a template for models without one of their own, such as simulated ones: each
// message with its role between <|im_start|> and <|im_end|>. It knows no tools.
const ChatML = `{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`
