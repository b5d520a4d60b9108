"""Problems: what is asked, from files, the Hugging Face hub and generators."""
